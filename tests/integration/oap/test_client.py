#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The SkyWalking client against the stand-in: what must work, and every way in which a backend fails."""
import os
import queue
import re
import shutil
import subprocess
import tempfile
import threading
import time
import unittest

from certs import Certificates
from oap import MESSAGES, Oap, Relay, now_ms

CLIENT = os.environ['NET_CLIENT']
DEADLINE = 60  # seconds: longer than the client's longest wait for a connection that hangs (30 s)


class Client:
    """The test program, its lines as they come."""

    def __init__(self, address, *options):
        self.process = subprocess.Popen([CLIENT, address, *options], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.lines, self.all = queue.Queue(), []
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.all.append(line.rstrip('\n'))
            self.lines.put(line.rstrip('\n'))
        self.lines.put(None)

    def say(self, text):
        self.process.stdin.write(text + '\n')
        self.process.stdin.flush()

    def expect(self, pattern):
        end = time.monotonic() + DEADLINE
        while True:
            try:
                line = self.lines.get(timeout=max(0.01, end - time.monotonic()))
            except queue.Empty:
                raise AssertionError('no line like "%s" in %s' % (pattern, self.all[-20:]))
            if line is None:
                raise AssertionError('ended before "%s": %s' % (pattern, self.all[-20:]))
            if re.search(pattern, line):
                return line

    def status(self):
        self.say('status')
        line = self.expect('^status ')
        fields = dict(f.split('=', 1) for f in line.split(' ', 7)[1:])
        return {k: v if k == 'state' else int(v) for k, v in fields.items()}

    def wait_status(self, condition):
        end = time.monotonic() + DEADLINE
        while True:
            status = self.status()
            if condition(status):
                return status
            if time.monotonic() > end:
                raise AssertionError('still %s' % status)
            time.sleep(0.05)

    def quit(self, ms=1000):
        self.say('quit %d' % ms)
        code = self.process.wait(30)
        errors = self.process.stderr.read()
        self.process.stdin.close()
        if code or errors:
            raise AssertionError('exit %d: %s' % (code, errors))

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.reader.join()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            try:
                stream.close()
            except OSError:
                pass


class Case(unittest.TestCase):
    FAST = ('poll=200', 'beat=300')

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix='oap-test-')
        self.addCleanup(shutil.rmtree, self.folder)
        self.clients = []
        self.oap = self.server()

    def server(self, *args, **kwargs):
        oap = Oap(*args, **kwargs)
        self.addCleanup(oap.stop)
        return oap

    def client(self, *options, address=None, instances=('web/web-1',)):
        client = Client(address or self.oap.address, *self.FAST, *options,
                        *['instance=' + i for i in instances])
        self.clients.append(client)
        self.addCleanup(client.kill)
        client.expect('^ready')
        return client

    def task(self, client, **kwargs):
        task = self.oap.create_task('web', '/api', **kwargs)
        client.expect('^task ' + re.escape(task))
        return task

    def wait(self, condition):
        value = self.oap.wait_for(condition, DEADLINE)
        self.assertTrue(value, 'calls: %s, complaints: %s' % (self.oap.calls[-20:], self.oap.complaints))
        return value

    def assert_clean(self, n_segments, repeats=False):
        self.assertEqual(self.oap.complaints, [])
        self.assertEqual(len(self.oap.segments), n_segments)
        if not repeats:
            self.assertEqual(self.oap.repeats, [])
            self.assertEqual(self.oap.segment_repeats, [])
        for segment in self.oap.segments:
            self.assertEqual(self.oap.check_segment(segment), [])
            self.assertTrue(self.oap.segment_snapshots(segment))


class Works(Case):
    def test_registration(self):
        client = self.client(instances=('web/web-1', 'shop/s-1'))
        self.wait(lambda: all(e['pings'] >= 12 for e in self.oap.instances.values())
                  and len(self.oap.instances) == 2)
        for entry in self.oap.instances.values():
            self.assertEqual(entry['properties']['kind'], 'test')
            self.assertIn(entry['reports'], (2, 3))  # at the start, then every tenth time
        client.say('down s-1')
        time.sleep(0.5)
        pings = self.oap.instances[('shop', 's-1')]['pings']
        time.sleep(0.8)
        self.assertEqual(self.oap.instances[('shop', 's-1')]['pings'], pings)
        client.say('up shop/s-2')
        self.wait(lambda: ('shop', 's-2') in self.oap.instances)
        client.quit()

    def test_long_names_are_cut(self):
        self.client(instances=('s' * 100 + '/' + 'i' * 100,))
        self.wait(lambda: ('s' * 70, 'i' * 70) in self.oap.instances)
        self.assertEqual(self.oap.complaints, [])

    def test_task_spans_finish(self):
        client = self.client()
        task = self.task(client)
        client.say('spans %s web-1 3 500' % task)
        client.say('finish %s web-1' % task)
        self.wait(lambda: self.oap.finishes)
        self.assert_clean(3)
        self.assertEqual(len(self.oap.task_segments(task)), 3)
        self.assertEqual([log[2] for log in self.oap.logs], ['NOTIFIED', 'EXECUTION_FINISHED'])
        for segment in self.oap.task_segments(task):
            (tree,), _ = self.oap.analyse_segment(segment.traceSegmentId)
            total = {'/'.join(path): node.duration for path, node in tree.walk()}
            # 8 and 6 of 10 ms, 6 of 35 ms: what the client made
            self.assertEqual(total, {'handle': 500, 'handle/work:11': 280,
                                     'handle/work:11/inner:10': 280, 'handle/wait:10': 220})
        client.quit()
        self.assertEqual(len(self.oap.finishes), 1)

    def test_snapshots_come_soon(self):
        client = self.client()
        task = self.task(client)
        start = time.monotonic()
        client.say('spans %s web-1 1 100' % task)
        self.wait(lambda: self.oap.segments)
        self.assertLess(time.monotonic() - start, 0.5)

    def test_only_the_chosen_instance(self):
        client = self.client(instances=('web/web-1', 'web/web-2', 'web/db-1'))
        task = self.oap.create_task('web', '/api', instance='web-*')
        for _ in range(3):
            client.expect('^(task|not-for-us) ' + re.escape(task))
        self.assertIn('not-for-us %s db-1' % task, client.all)
        create = self.oap.tasks[0].create
        self.wait(lambda: all((('web', i, create) in self.oap.polls) for i in ('web-1', 'web-2', 'db-1')))

    def test_last_command_time_starts_low_and_never_falls(self):
        client = self.client()
        self.task(client)
        self.wait(lambda: len(self.oap.polls) > 6)
        times = [p[2] for p in self.oap.polls]
        self.assertEqual(times[0], -1)
        self.assertEqual(times, sorted(times))
        self.assertEqual(times[-1], self.oap.tasks[0].create)
        self.assertEqual(len(self.oap.logs), 1)

    def test_long_span_goes_in_several_streams(self):
        client = self.client()
        task = self.task(client)
        client.say('spans %s web-1 1 90000' % task)
        self.wait(lambda: self.oap.segments)
        self.assert_clean(1)
        self.assertGreater(len(self.oap.streams), 1)
        self.assertLessEqual(len(self.oap.snapshots), 12000)

    def test_trace_context(self):
        client = self.client()
        task = self.task(client)
        client.say('name /api sw8=1-dHJhY2UuMQ==-c2VnLjI=-3-ZnJvbnQ=-ZnJvbnQtMQ==-L2FwaQ==-MTAuMC4wLjE6ODA=')
        client.say('spans %s web-1 1 20' % task)
        client.say('name /api traceparent=00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01')
        client.say('spans %s web-1 1 20' % task)
        client.say('name /api sw8=broken')
        client.say('spans %s web-1 1 20' % task)
        self.wait(lambda: len(self.oap.segments) == 3)
        self.assert_clean(3)
        sw8, w3c, broken = sorted(self.oap.segments.values(), key=lambda s: s.traceSegmentId)
        self.assertEqual({s.spans[0].operationName for s in (sw8, w3c, broken)}, {'/api'})
        self.assertEqual(sw8.traceId, 'trace.1')
        self.assertEqual(sw8.spans[0].refs[0].parentTraceSegmentId, 'seg.2')
        self.assertEqual(w3c.traceId, '4bf92f3577b34da6a3ce929d0e0e4736')
        self.assertEqual(broken.traceId, broken.traceSegmentId)

    def test_idle_is_quiet(self):
        self.FAST = ()
        client = self.client(instances=['web/i%d' % i for i in range(50)])
        self.wait(lambda: len(self.oap.instances) == 50 and len(self.oap.polls) == 50)
        time.sleep(0.5)
        before = len(self.oap.calls)
        time.sleep(3)
        self.assertLess(len(self.oap.calls) - before, 20)
        with open('/proc/%d/status' % client.process.pid) as f:
            rss = int(re.search(r'VmRSS:\s+(\d+)', f.read()).group(1))
        print('50 instances: RSS %.1f MB' % (rss / 1024))
        client.quit()


class BadCommands(Case):
    def test_garbage_is_refused_one_by_one(self):
        client = self.client()
        make = lambda **kw: self.oap.create_task('web', '/api', check=False, **kw)
        bad = {make(Duration='five'): 'Duration', make(DumpPeriod=''): 'DumpPeriod',
               make(MaxSamplingCount='99999999999'): 'MaxSamplingCount',
               make(duration=16): '[Dd]uration', make(duration=0): '[Dd]uration',
               make(period=9): '[Pp]eriod', make(count=10): '[Cc]ount', make(count=0): '[Cc]ount',
               make(threshold=-1): '[Tt]hreshold', make(EndpointName=''): '[Ee]ndpoint'}
        good = make(SerialNumber=None, NeverHeardOf='x')
        seen = {}
        while len(seen) < len(bad):
            _, task, _, why = client.expect('^refuse ').split(' ', 3)
            seen[task] = why
        for task, word in bad.items():
            self.assertRegex(seen[task], word)
        client.expect('^task ' + re.escape(good))
        self.wait(lambda: self.oap.polls[-1][2] == self.oap.tasks[-1].create)

    def test_create_time_from_the_future_does_not_move_the_last_time(self):
        client = self.client()
        self.oap.create_task('web', '/api', create=now_ms() + 10 * 86400000)
        self.assertRegex(client.expect('^refuse '), 'clocks')
        self.wait(lambda: len(self.oap.polls) > 4)
        self.assertTrue(all(p[2] == -1 for p in self.oap.polls))

    def test_not_a_message(self):
        self.oap.raw = b'<html>busy</html>'
        self.oap.moods['getProfileTaskCommands'] = 'raw'
        client = self.client()
        client.wait_status(lambda s: s['source-errors'] > 0)
        self.oap.moods.clear()
        self.task(client)

    def test_a_million_tasks(self):
        one = MESSAGES['Commands'](commands=[MESSAGES['Command'](command='ProfileTaskQuery')])
        self.oap.raw = one.SerializeToString() * 1000000
        self.oap.moods['getProfileTaskCommands'] = 'raw'
        client = self.client()
        client.wait_status(lambda s: s['source-errors'] > 0)
        with open('/proc/%d/status' % client.process.pid) as f:
            peak = int(re.search(r'VmHWM:\s+(\d+)', f.read()).group(1))
        self.assertLess(peak, 64 << 10)
        self.oap.moods.clear()
        self.task(client)

    def test_many_tasks_come_in_portions_and_none_is_lost(self):
        client = self.client()
        self.wait(lambda: self.oap.polls)
        tasks = [self.oap.create_task('web', '/api', check=False) for _ in range(300)]
        for _ in tasks:
            client.expect('^task ')
        self.assertEqual([line.split()[1] for line in client.all if line.startswith('task ')], tasks)

    def test_same_task_again_and_again(self):
        client = self.client()
        task = self.oap.create_task('web', '/api')
        answer = self.oap.commands([self.oap.command(self.oap.tasks[0])] * 3)
        self.oap.moods['getProfileTaskCommands'] = lambda request: answer
        for _ in range(9):
            client.expect('^task ' + re.escape(task))
        self.assertEqual(client.status()['dropped'], 0)


class BadDays(Case):
    def test_backend_comes_late(self):
        self.oap.stop()
        client = self.client()
        client.wait_status(lambda s: s['state'] == 'away')
        self.oap.start(self.oap.address)
        self.wait(lambda: self.oap.polls)
        client.wait_status(lambda s: s['state'] == 'ready')

    def test_spans_wait_for_the_backend(self):
        client = self.client()
        task = self.task(client)
        self.oap.stop()
        client.say('spans %s web-1 20 200' % task)
        client.say('finish %s web-1' % task)
        client.wait_status(lambda s: s['queued'] > 0 and s['state'] == 'away')
        self.assertEqual(self.oap.segments, {})
        self.oap.start(self.oap.address)
        self.wait(lambda: self.oap.finishes)
        self.assert_clean(20)
        status = client.status()
        self.assertEqual((status['sent'], status['dropped'], status['queued']), (20, 0, 0))
        client.quit()
        self.assertEqual(len(self.oap.finishes), 1)

    def test_stream_breaks_off(self):
        client = self.client()
        task = self.task(client)
        self.oap.moods['collectSnapshot'] = 'partial:7'
        client.say('spans %s web-1 2 300' % task)
        client.say('finish %s web-1' % task)
        client.wait_status(lambda s: s['errors'] > 0)
        self.oap.moods.clear()
        self.wait(lambda: self.oap.finishes)
        self.assert_clean(2, repeats=True)
        # What came twice is the same: a real server knows it by task, segment and sequence.
        self.assertLessEqual(len(set(self.oap.repeats)), 7 * 3)

    def test_segments_fail_snapshots_are_not_repeated(self):
        client = self.client()
        task = self.task(client)
        self.oap.moods['collect'] = 'unavailable'
        client.say('spans %s web-1 2 300' % task)
        client.wait_status(lambda s: s['errors'] > 0)
        self.assertEqual(self.oap.segments, {})
        self.oap.moods.clear()
        self.wait(lambda: len(self.oap.segments) == 2)
        self.assert_clean(2)

    def test_finish_waits_for_the_spans_and_goes_once(self):
        client = self.client()
        task = self.task(client)
        self.oap.moods['collect'] = 'unavailable'
        client.say('spans %s web-1 1 100' % task)
        client.say('finish %s web-1' % task)
        client.wait_status(lambda s: s['errors'] > 0)
        self.assertEqual(self.oap.finishes, [])
        self.oap.moods['reportTaskFinish'] = 'unavailable'
        del self.oap.moods['collect']
        self.wait(lambda: ('reportTaskFinish', False) in self.oap.calls)
        self.assertEqual(len(self.oap.segments), 1)
        self.oap.moods.clear()
        self.wait(lambda: self.oap.finishes)
        time.sleep(0.5)
        self.assertEqual(len(self.oap.finishes), 1)

    def test_refused_token(self):
        self.oap.token = 'right'
        client = self.client('token=wrong')
        self.assertRegex(client.wait_status(lambda s: 'refused' in s['state'])['state'], 'token')
        n = len(self.oap.calls)
        time.sleep(1.5)
        self.assertLess(len(self.oap.calls) - n, 8)
        self.oap.token = 'wrong'  # somebody corrects the server
        client.wait_status(lambda s: s['state'] == 'ready')

    def test_token_from_a_file(self):
        self.oap.token = 'from-file'
        path = os.path.join(self.folder, 'token')
        with open(path, 'w') as f:
            f.write('from-file\n')
        client = self.client('token_file=' + path)
        self.wait(lambda: self.oap.polls)
        client.quit()

    def test_no_profiling_there(self):
        for method in ('getProfileTaskCommands', 'collectSnapshot', 'reportTaskFinish'):
            self.oap.moods[method] = 'unimplemented'
        client = self.client(instances=('web/web-1', 'web/web-2'))
        client.wait_status(lambda s: 'does not know' in s['state'])
        time.sleep(1)
        polls = [c for c in self.oap.calls if c[0] == 'getProfileTaskCommands']
        self.assertLessEqual(len(polls), 2)  # one each, then a long wait
        self.wait(lambda: self.oap.instances[('web', 'web-1')]['pings'] > 3)

    def test_a_span_that_the_backend_cannot_digest(self):
        client = self.client()
        task = self.task(client)
        poison = []

        def collect(stream):
            segments = [MESSAGES['SegmentObject'].FromString(data) for data in stream]
            poison.append(segments[0].traceSegmentId) if not poison else None
            if any(s.traceSegmentId == poison[0] for s in segments):
                raise RuntimeError('cannot digest')
            for s in segments:
                self.oap.keep_segment(s)
            return self.oap.commands()

        self.oap.moods['collect'] = collect
        client.say('spans %s web-1 3 50' % task)
        client.say('finish %s web-1' % task)
        self.wait(lambda: self.oap.finishes)
        status = client.status()
        self.assertEqual((status['sent'], status['dropped']), (2, 1))
        self.assertEqual(len(self.oap.segments), 2)

    def test_slow_backend_holds_nothing_up(self):
        client = self.client()
        task = self.task(client)
        self.oap.moods['collectSnapshot'] = 'slow:2'
        client.say('spans %s web-1 5 100' % task)
        start = time.monotonic()
        for _ in range(10):
            client.status()
        self.assertLess(time.monotonic() - start, 1)
        polls = len(self.oap.polls)
        self.wait(lambda: len(self.oap.polls) > polls + 3)
        self.wait(lambda: len(self.oap.segments) == 5)
        self.assert_clean(5)

    def test_connection_is_cut_in_the_middle(self):
        relay = Relay(self.oap.address)
        self.addCleanup(relay.close)
        client = self.client(address=relay.address)
        task = self.task(client)
        for _ in range(3):
            client.say('spans %s web-1 10 300' % task)
            time.sleep(0.25)
            relay.set('drop')
            client.wait_status(lambda s: s['state'] == 'away')
            relay.set('pass')
            client.wait_status(lambda s: s['state'] == 'ready')
        client.say('finish %s web-1' % task)
        self.wait(lambda: self.oap.finishes)
        self.assert_clean(30, repeats=True)
        self.assertEqual(client.status()['dropped'], 0)

    def test_half_open_connection(self):
        relay = Relay(self.oap.address)
        self.addCleanup(relay.close)
        client = self.client('timeout=1000', address=relay.address)
        task = self.task(client)
        relay.set('freeze')
        client.say('spans %s web-1 2 100' % task)
        client.say('finish %s web-1' % task)
        client.wait_status(lambda s: s['state'] == 'away')
        accepted = relay.n_accepted
        relay.set('pass')
        self.wait(lambda: self.oap.finishes)
        self.assertGreater(relay.n_accepted, accepted - 1)
        self.assert_clean(2, repeats=True)
        time.sleep(1)
        self.assertEqual(len(self.oap.finishes), 1)

    def test_several_addresses(self):
        dead = Oap()
        dead.stop()
        client = self.client(address=dead.address + ',' + self.oap.address)
        self.wait(lambda: self.oap.polls)
        other = self.server()
        client.quit()
        client = self.client(address=self.oap.address + ',' + other.address)
        self.wait(lambda: len(self.oap.polls) > 2)
        self.oap.stop()
        self.assertTrue(other.wait_for(lambda: other.polls, 20))

    def test_bounded_memory_drops_oldest(self):
        client = self.client('spool=200000')
        task = self.task(client)
        self.oap.stop()
        client.say('spans %s web-1 500 500' % task)
        client.say('finish %s web-1' % task)
        status = client.wait_status(lambda s: s['state'] == 'away')
        self.assertLessEqual(status['queued'], 200000)
        self.assertGreater(status['dropped'], 0)
        self.oap.start(self.oap.address)
        self.wait(lambda: self.oap.finishes)
        status = client.status()
        self.assertEqual(status['sent'] + status['dropped'], 500)
        self.assert_clean(status['sent'])
        # Who looks at the server's log is told.
        self.wait(lambda: self.oap.log_lines)
        line = self.oap.log_lines[0]
        self.assertEqual((line.service, line.serviceInstance), ('web', 'web-1'))
        self.assertIn('lost %d profiled spans' % status['dropped'], line.body.text.text)
        numbers = sorted(int(s.rsplit('.', 1)[1]) for s in self.oap.segments)
        self.assertEqual(numbers[-1] - numbers[0] + 1, len(numbers))  # the newest, without holes

    def test_disk_spool_outlives_the_agent(self):
        spool = 'spool_file=' + os.path.join(self.folder, 'spool')
        client = self.client(spool, 'spool=100000')
        task = self.task(client)
        self.oap.stop()
        client.say('spans %s web-1 100 500' % task)
        client.wait_status(lambda s: s['state'] == 'away')
        client.quit(0)
        self.oap.start(self.oap.address)
        client = self.client(spool, 'spool=100000')
        self.wait(lambda: len(self.oap.segments) == 100)
        self.assert_clean(100)
        client.wait_status(lambda s: s['queued'] == 0)
        client.quit()
        # Nothing is left to send.
        n = len(self.oap.calls)
        self.client(spool)
        self.wait(lambda: len(self.oap.polls) > 0)
        time.sleep(0.5)
        self.assertNotIn(('collectSnapshot', True), self.oap.calls[n:])

    def test_killed_agent_loses_only_what_was_in_memory(self):
        spool = 'spool_file=' + os.path.join(self.folder, 'spool')
        client = self.client(spool, 'spool=20000')
        task = self.task(client)
        self.oap.stop()
        client.say('spans %s web-1 100 500' % task)
        client.wait_status(lambda s: s['state'] == 'away')
        client.kill()
        self.oap.start(self.oap.address)
        client = self.client(spool, 'spool=20000')
        self.wait(lambda: self.oap.segments)
        client.wait_status(lambda s: s['queued'] == 0)
        self.assertGreater(len(self.oap.segments), 50)
        self.assert_clean(len(self.oap.segments))

    def test_spool_file_of_others_is_left_alone(self):
        path = os.path.join(self.folder, 'precious')
        with open(path, 'w') as f:
            f.write('my thesis')
        process = subprocess.run([CLIENT, self.oap.address, 'spool_file=' + path], capture_output=True,
                                 text=True, stdin=subprocess.DEVNULL)
        self.assertEqual(process.returncode, 1)
        self.assertIn('precious', process.stdout)
        with open(path) as f:
            self.assertEqual(f.read(), 'my thesis')

    def test_quit_while_the_backend_hangs(self):
        for method in ('collectSnapshot', 'keepAlive', 'getProfileTaskCommands'):
            self.oap.moods[method] = 'hang'
        client = self.client()
        client.say('spans earlier web-1 3 100')
        time.sleep(0.5)
        start = time.monotonic()
        client.quit(500)
        self.assertLess(time.monotonic() - start, 3)


class Tls(Case):
    def setUp(self):
        super().setUp()
        if not shutil.which('openssl'):
            self.skipTest('no openssl')
        self.certs = Certificates(self.folder)
        self.path, self.read = self.certs.path, self.certs.read
        self.certs.make_ca('ca')
        self.certs.make_cert('ca', 'server', 'DNS:oap.example')
        self.certs.make_cert('ca', 'agent', 'DNS:agent.example')

    def test_tls(self):
        oap = self.server(tls=(self.read('server.pem'), self.read('server.key'), None))
        self.client('ca=' + self.path('ca.pem'), 'server_name=oap.example', address=oap.address)
        self.assertTrue(oap.wait_for(lambda: oap.polls))

    def test_wrong_server(self):
        oap = self.server(tls=(self.read('server.pem'), self.read('server.key'), None))
        client = self.client('ca=' + self.path('ca.pem'), address=oap.address)
        client.wait_status(lambda s: s['state'] == 'away')
        self.certs.make_ca('other')
        client = self.client('ca=' + self.path('other.pem'), 'server_name=oap.example', address=oap.address)
        client.wait_status(lambda s: s['state'] == 'away')
        self.assertEqual(oap.polls, [])

    def test_mtls(self):
        oap = self.server(tls=(self.read('server.pem'), self.read('server.key'), self.read('ca.pem')))
        options = ('ca=' + self.path('ca.pem'), 'server_name=oap.example')
        client = self.client(*options, address=oap.address)
        client.wait_status(lambda s: s['state'] == 'away')
        self.client(*options, 'cert=' + self.path('agent.pem'), 'key=' + self.path('agent.key'),
                    address=oap.address)
        self.assertTrue(oap.wait_for(lambda: oap.polls))

    def test_bad_files_are_explained(self):
        for options, word in ((('ca=' + self.path('none.pem'),), 'none.pem'),
                              (('ca=' + self.path('ca.pem'), 'cert=' + self.path('agent.pem')), 'key'),
                              (('ca=' + self.path('agent.ext'),), 'PEM'),
                              (('token=a\tb',), 'token')):
            process = subprocess.run([CLIENT, self.oap.address, *options], capture_output=True, text=True,
                                     stdin=subprocess.DEVNULL)
            self.assertEqual(process.returncode, 1, process.stdout)
            self.assertIn(word, process.stdout)


if __name__ == '__main__':
    unittest.main(verbosity=2)
