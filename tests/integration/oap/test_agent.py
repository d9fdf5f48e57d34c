#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""spanprof agent against the stand-in, end to end: real processes, real probes."""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from oap import Oap

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


class Agent(unittest.TestCase):
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

    def start_agent(self, spec='request(str(arg0))', extra='', backend=''):
        path = os.path.join(self.folder, 'agent.yaml')
        with open(path, 'w') as f:
            f.write('agent: {socket: %s/socket, store: %s/store, scan_interval: 500ms}\n'
                    'services:\n'
                    '- name: shop\n'
                    '  match: [{exe: "%s"}]\n'
                    '  instance: "{env:WHO}"\n'
                    "  endpoints: [{spec: '%s'}]\n%s"
                    'backends:\n'
                    '- {name: oap, kind: skywalking, addresses: ["%s"], poll: 300ms, heartbeat: 1s%s}\n'
                    % (self.folder, self.folder, self.target, spec, extra, self.oap.address, backend))
        self.log = os.path.join(self.folder, 'agent.log')
        with open(self.log, 'a') as log:
            process = subprocess.Popen([SPANPROF, 'agent', '-c', path], stdout=log, stderr=log)
        self.addCleanup(self.no_refused_calls)
        self.addCleanup(self.end, process)
        return process

    def no_refused_calls(self):
        self.assertNotIn('event=call_refused', self.text())

    def text(self):
        with open(self.log) as f:
            return f.read()

    def wait(self, condition, timeout=20):
        value = self.oap.wait_for(condition, timeout * SLOW)
        self.assertTrue(value, '%s\n%s' % (self.text(), self.oap.complaints))
        return value

    def assert_segments_are_sound(self):
        self.assertEqual(self.oap.complaints, [])
        for segment in self.oap.segments:
            self.assertEqual(self.oap.check_segment(segment), [])

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


if __name__ == '__main__':
    if why_not():
        print('skipped: ' + why_not())
        sys.exit(77)
    unittest.main(verbosity=2)
