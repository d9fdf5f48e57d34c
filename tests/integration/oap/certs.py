# SPDX-License-Identifier: Apache-2.0
"""Certificates of a test's own, made with openssl in its folder."""
import os
import subprocess


class Certificates:
    def __init__(self, folder):
        self.folder = folder

    def openssl(self, *args):
        subprocess.run(('openssl',) + args, cwd=self.folder, check=True, capture_output=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def read(self, name):
        with open(self.path(name), 'rb') as f:
            return f.read()

    def make_ca(self, name):
        self.openssl('req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', '/CN=' + name,
                     '-keyout', name + '.key', '-out', name + '.pem')

    def make_cert(self, ca, name, san):
        with open(self.path(name + '.ext'), 'w') as f:
            f.write('subjectAltName=%s\n' % san)
        self.openssl('req', '-newkey', 'rsa:2048', '-nodes', '-subj', '/CN=' + name, '-keyout', name + '.key',
                     '-out', name + '.csr')
        self.openssl('x509', '-req', '-in', name + '.csr', '-CA', ca + '.pem', '-CAkey', ca + '.key',
                     '-CAcreateserial', '-days', '2', '-extfile', name + '.ext', '-out', name + '.pem')
