#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""spanprof agent against the stand-in, end to end: real processes, real probes."""
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from certs import Certificates
from oap import MESSAGES, Oap, Relay

SPANPROF = os.environ['SPANPROF']
TARGET = os.path.join(os.environ['BUILD'], 'tests/integration/targets/phases-gcc-O2')
SLOW = float(os.environ.get('SLOW', '1'))


def why_not():
    if os.geteuid():
        return 'needs root'
    run = subprocess.run([SPANPROF, 'run', '-d', '10ms', '-p', str(os.getpid()), 'no_such_function'],
                         capture_output=True, text=True)
    if re.search('BPF|bpf|permission', run.stderr):
        return run.stderr.strip()
    return None


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix='oap-agent-')
        self.addCleanup(shutil.rmtree, self.folder)
        self.oap = Oap()
        self.addCleanup(self.oap.stop)
        # A path of its own: other tests' targets are none of ours.
        self.target = os.path.join(self.folder, 'shopd')
        shutil.copy(TARGET, self.target)
        self.processes = []

    def start_target(self, name, *scripts):
        process = subprocess.Popen([self.target, '-n', '100000', '-g', '20', *scripts],
                                   env={**os.environ, 'WHO': name}, stdout=subprocess.DEVNULL)
        self.addCleanup(self.end, process)
        return process

    def end(self, process, how=signal.SIGKILL):
        if process.poll() is None:
            process.send_signal(how)
        return process.wait(30)

    def start_agent(self, spec='request(str(arg0))', extra='', backend='', addresses=None, store='store'):
        path = os.path.join(self.folder, 'agent.yaml')
        with open(path, 'w') as f:
            f.write('agent: {socket: %s/socket, store: %s/%s, scan_interval: 500ms}\n'
                    'services:\n'
                    '- name: shop\n'
                    '  match: [{exe: "%s"}]\n'
                    '  instance: "{env:WHO}"\n'
                    "  endpoints: [{spec: '%s'}]\n%s"
                    'backends:\n'
                    '- {name: oap, kind: skywalking, addresses: %s, poll: 300ms, heartbeat: 1s%s}\n'
                    % (self.folder, self.folder, store, self.target, spec, extra,
                       json.dumps(addresses or [self.oap.address]), backend))
        self.log = os.path.join(self.folder, 'agent.log')
        with open(self.log, 'a') as log:
            # A sanitizer looks for leaks with system calls and rights that an agent has given up.
            process = subprocess.Popen([SPANPROF, 'agent', '-c', path, *(['--keep-privileges'] if SLOW > 1 else [])],
                                       stdout=log, stderr=log)
        self.addCleanup(self.no_refused_calls)
        self.addCleanup(self.end_well, process)
        return process

    def end_well(self, process):
        """In order, unless the test has killed it."""
        if process.poll() is None:
            self.assertEqual(self.end(process, signal.SIGTERM), 0, self.text())

    def no_refused_calls(self):
        self.assertNotIn('event=call_refused', self.text())

    def text(self):
        with open(self.log) as f:
            return f.read()

    def wait(self, condition, timeout=20):
        value = self.oap.wait_for(condition, timeout * SLOW)
        self.assertTrue(value, '%s\n%s' % (self.text(), self.oap.complaints))
        return value

    def ask(self, cmd, **members):
        """One request on the control socket, answered within a second whatever the backend does."""
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(SLOW)
            s.connect(os.path.join(self.folder, 'socket'))
            s.sendall(json.dumps({'v': 1, 'cmd': cmd, **members}).encode() + b'\n')
            reply = json.loads(s.makefile('rb').readline())
        self.assertTrue(reply['ok'], reply)
        return reply['result']

    def n_polls(self):
        """Those that were answered with nonsense, too."""
        return len([c for c in self.oap.calls if c[0] == 'getProfileTaskCommands'])

    def memory_mb(self, process):
        with open('/proc/%d/status' % process.pid) as f:
            return int(re.search(r'VmRSS:\s+(\d+)', f.read())[1]) / 1024

    def assert_segments_are_sound(self):
        self.assertEqual(self.oap.complaints, [])
        for segment in self.oap.segments:
            self.assertEqual(self.oap.check_segment(segment), [])


class Agent(Case):
    def test_instance_goes_and_the_task_is_finished(self):
        target = self.start_target('shop-1', '/slow=sleep:60')
        self.start_agent()
        self.wait(lambda: self.oap.instances)
        task = self.oap.create_task('shop', '/slow', threshold=10, count=9)
        self.wait(lambda: self.oap.segments)
        self.end(target)
        self.wait(lambda: self.oap.finishes)
        self.assertEqual(self.oap.finishes, [('shop', 'shop-1', task)])
        self.assert_segments_are_sound()

    def test_joins_the_callers_trace(self):
        trace = '4bf92f3577b34da6a3ce929d0e0e4736'
        self.start_target('shop-1', '00-%s-00f067aa0ba902b7-01=sleep:60' % trace)
        self.start_agent('request("/slow traceparent=" str(arg0))')
        self.wait(lambda: self.oap.instances)
        self.oap.create_task('shop', '/slow', threshold=10, count=1)
        self.wait(lambda: self.oap.segments)
        (segment,) = self.oap.segments.values()
        self.assertEqual(segment.traceId, trace)
        self.assertEqual(segment.spans[0].operationName, '/slow')

    def test_backend_is_away_for_a_while(self):
        self.start_target('shop-1', '/slow=sleep:60')
        self.start_agent()
        self.wait(lambda: self.oap.instances)
        task = self.oap.create_task('shop', '/slow', threshold=10, count=9)
        self.wait(lambda: self.oap.segments)
        self.oap.stop()
        time.sleep(1)
        self.oap.start(self.oap.address)
        self.wait(lambda: len(self.oap.task_segments(task)) == 9)
        self.assert_segments_are_sound()

    def test_agent_killed_and_started_again(self):
        target = self.start_target('shop-1', '/slow=sleep:60')
        agent = self.start_agent()
        self.wait(lambda: self.oap.instances)
        self.oap.create_task('shop', '/slow', threshold=10, count=9)
        self.wait(lambda: self.oap.segments)
        self.end(agent)
        polls = len(self.oap.polls)
        self.start_agent()
        self.wait(lambda: len(self.oap.polls) > polls)
        # It remembers what it has seen.
        self.assertEqual(self.oap.polls[-1][2], self.oap.tasks[0].create)
        self.assertIsNone(target.poll())
        self.assert_segments_are_sound()

    def test_what_a_full_disk_kept_from_the_store_is_written_later(self):
        disk = os.path.join(self.folder, 'disk')
        os.mkdir(disk)
        if subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=320k', 'none', disk]).returncode:
            self.skipTest('cannot mount a small tmpfs')
        self.addCleanup(subprocess.run, ['umount', disk])
        with open(os.path.join(disk, 'filler'), 'wb', buffering=0) as f, contextlib.suppress(OSError):
            while f.write(b'x' * 4096):
                pass
        target = self.start_target('shop-1', '/slow=sleep:60')
        agent = self.start_agent(store='disk/store')
        self.wait(lambda: 'event=store_failing' in self.text())
        self.wait(lambda: self.oap.instances)
        task = self.oap.create_task('shop', '/slow', threshold=10, count=1)
        create = self.oap.tasks[0].create
        self.wait(lambda: any(p[2] == create for p in self.oap.polls))
        self.wait(lambda: self.oap.segments)
        self.oap.moods['reportTaskFinish'] = 'unavailable'
        self.end(target)
        self.wait(lambda: ('reportTaskFinish', False) in self.oap.calls)
        os.unlink(os.path.join(disk, 'filler'))
        self.wait(lambda: 'event=store_recovered' in self.text(), 40)
        self.end(agent)
        self.oap.moods.clear()
        polls = len(self.oap.polls)
        self.start_target('shop-1', '/slow=sleep:60')
        self.start_agent(store='disk/store')
        self.wait(lambda: len(self.oap.polls) > polls)
        self.assertEqual(self.oap.polls[-1][2], create)
        # It was over, but its server had not been told.
        self.wait(lambda: self.oap.finishes)
        self.assertEqual(self.oap.finishes, [('shop', 'shop-1', task)])

    def test_mutual_tls_by_name_after_one_that_does_not_resolve(self):
        """With the filter of system calls in force: the files were read before, names and handshakes come after."""
        if not shutil.which('openssl'):
            self.skipTest('no openssl')
        certs = Certificates(self.folder)
        certs.make_ca('ca')
        certs.make_cert('ca', 'server', 'DNS:localhost')
        certs.make_cert('ca', 'client', 'DNS:agent.example')
        oap = Oap(tls=(certs.read('server.pem'), certs.read('server.key'), certs.read('ca.pem')), token='sesame')
        self.addCleanup(oap.stop)
        self.oap.stop()
        self.oap = oap
        self.start_target('shop-1', '/slow=sleep:60')
        self.start_agent(addresses=['spanprof.invalid:11800', 'localhost:' + oap.address.rsplit(':', 1)[1]],
                         backend=', token: sesame, tls: true, ca_file: %s, cert_file: %s, key_file: %s'
                         % (certs.path('ca.pem'), certs.path('client.pem'), certs.path('client.key')))
        self.wait(lambda: oap.instances, 60)
        task = oap.create_task('shop', '/slow', threshold=10, count=3)
        self.wait(lambda: len(oap.task_segments(task)) == 3, 40)
        self.assert_segments_are_sound()

    def test_frozen_backend_holds_nothing_up(self):
        relay = Relay(self.oap.address)
        self.addCleanup(relay.close)
        self.start_target('shop-1', '/slow=sleep:60')
        self.start_agent(addresses=[relay.address], backend=', timeout: 2s')
        self.wait(lambda: self.oap.instances)
        task = self.oap.create_task('shop', '/slow', threshold=10, count=9)
        self.wait(lambda: self.oap.segments)
        relay.set('freeze')
        local = self.ask('task.create', task={'service': 'shop', 'endpoint': '*', 'threshold': '10ms'})['id']
        self.wait(lambda: len(self.ask('span.list', id=local)['spans']) >= 10)
        self.ask('task.cancel', id=local)
        relay.set('pass')
        self.wait(lambda: len(self.oap.task_segments(task)) == 9, 60)
        self.assert_segments_are_sound()


class Minute(Case):
    """A task of this protocol lasts for a minute or more: each of these waits for its end, and they do it side by side."""

    def test_task_for_one_of_two_instances(self):
        targets = [self.start_target(name, '/slow=spin:20,sleep:60', '/fast=spin:1')
                   for name in ('shop-1', 'shop-2')]
        agent = self.start_agent()
        self.wait(lambda: len(self.oap.instances) == 2)
        self.assertEqual({i[1] for i in self.oap.instances}, {'shop-1', 'shop-2'})
        task = self.oap.create_task('shop', '/slow', threshold=30, count=4, instance='shop-1')
        self.wait(lambda: len(self.oap.task_segments(task)) >= 4)
        self.assert_segments_are_sound()
        for segment in self.oap.segments.values():
            self.assertEqual(segment.serviceInstance, 'shop-1')
            self.assertEqual(segment.spans[0].operationName, '/slow')
            tags = {t.key: t.value for t in segment.spans[0].tags}
            self.assertEqual(tags['pid'], str(targets[0].pid))
            span = segment.spans[0]
            (tree,), _ = self.oap.analyse_segment(segment.traceSegmentId)
            self.assertLessEqual(abs(tree.duration - (span.endTime - span.startTime)), 10)
            total = {path[-1].split(':')[0]: node.duration for path, node in tree.walk()}
            self.assertEqual(tree.text, 'request')
            self.assertGreaterEqual(total['phase_sleep'], 60 - 10)
            self.assertGreater(float(tags['spanprof.blocked_ms']), 55)
        create = self.oap.tasks[0].create
        self.wait(lambda: {('shop', i, create) for i in ('shop-1', 'shop-2')} <= set(self.oap.polls))
        # Both were told; the log shows who ran it.
        self.wait(lambda: self.oap.finishes, 75)
        self.assertEqual(self.oap.finishes, [('shop', 'shop-1', task)])
        self.assertEqual(sorted(self.oap.logs), sorted([(task, 'shop-1', 'NOTIFIED'),
                                                        (task, 'shop-2', 'NOTIFIED'),
                                                        (task, 'shop-1', 'EXECUTION_FINISHED')]))
        self.assertEqual(len(self.oap.segments), 4)
        self.assertEqual(self.end(agent, signal.SIGTERM), 0)
        self.assertTrue(all(t.poll() is None for t in targets))

    def test_killed_before_the_finish_report_was_taken(self):
        self.start_target('shop-1', '/slow=sleep:60')
        agent = self.start_agent()
        self.wait(lambda: self.oap.instances)
        task = self.oap.create_task('shop', '/slow', threshold=10, count=3)
        self.wait(lambda: len(self.oap.task_segments(task)) == 3)
        self.oap.moods['reportTaskFinish'] = 'unavailable'
        self.wait(lambda: 'event=task_finished source=oap' in self.text(), 90)
        self.wait(lambda: ('reportTaskFinish', False) in self.oap.calls)
        self.end(agent)
        self.oap.moods.clear()
        for polls in (3, 6):
            agent = self.start_agent()
            self.wait(lambda: self.oap.finishes)
            before = len(self.oap.polls)
            self.wait(lambda: len(self.oap.polls) > before + polls)
            self.end(agent)
        # Taken once, and not sent again after another restart.
        self.assertEqual(self.oap.finishes, [('shop', 'shop-1', task)])
        self.assertEqual(len(self.oap.segments), 3)

    def test_answers_that_make_no_sense(self):
        """Garbage, a million tasks, one task that contradicts itself: none runs, and the next good one does."""
        target = self.start_target('shop-1', '/slow=sleep:60')
        agent = self.start_agent()
        self.wait(lambda: self.oap.polls)
        one = MESSAGES['Commands'](commands=[MESSAGES['Command'](command='ProfileTaskQuery')]).SerializeToString()
        for raw in (b'<html>busy</html>', b'\xff' * 1000000, one * 1000000):
            self.oap.raw = raw
            self.oap.moods['getProfileTaskCommands'] = 'raw'
            calls, polls = self.n_polls(), len(self.oap.polls)
            self.wait(lambda: self.n_polls() > calls + 1, 60)
            self.ask('ping')
            self.oap.moods.clear()
            self.wait(lambda: len(self.oap.polls) > polls + 1, 60)
            self.assertLess(self.memory_mb(agent), 64 * SLOW)
        self.oap.create_task('shop', '/slow', threshold=10, count=3)
        (task,) = self.oap.tasks
        again = self.oap.command(task)
        other = MESSAGES['Command'].FromString(again.SerializeToString())
        for arg in other.args:
            if arg.key == 'MaxSamplingCount':
                arg.value = '9'
        answer = self.oap.commands([again, other, again] * 20)
        self.oap.moods['getProfileTaskCommands'] = lambda request: answer
        self.wait(lambda: len(self.oap.task_segments(task.id)) == 3, 40)
        self.oap.moods.clear()
        self.wait(lambda: self.oap.finishes, 90)
        self.assertEqual(len(self.oap.segments), 3)
        self.assertEqual(self.oap.finishes, [('shop', 'shop-1', task.id)])
        self.assertIn('came again with other values', self.text())
        self.assertIsNone(target.poll())


if __name__ == '__main__':
    if why_not():
        print('skipped: ' + why_not())
        sys.exit(77)
    unittest.main(verbosity=2)
