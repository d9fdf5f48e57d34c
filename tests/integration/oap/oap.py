#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A stand-in for SkyWalking's OAP: the part of it that trace profiling needs, and all its bad days.

It is built on an independent implementation of gRPC and on messages that are compiled from proto/ when
it starts. It checks and hands out tasks, keeps what agents send, and analyses snapshots, each as the
real server does. As a library: see the tests beside it. As a program:

    oap.py --port 11800 [--token T] [--dump FILE]

reads one JSON object a line from stdin ({"call": "create_task", "service": ..., ...}) and answers
with one a line on stdout.
"""
import argparse
import base64
import importlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from concurrent import futures

import grpc

HERE = os.path.dirname(os.path.abspath(__file__))
PROTO = os.path.join(HERE, '..', '..', '..', 'proto')
ANALYSIS_LIMIT = 12000
WINDOW_MS = 5 * 60 * 1000


def now_ms():
    return int(time.time() * 1000)


def compile_protos():
    """The messages as a namespace; the folder is on sys.path from then on."""
    out = tempfile.mkdtemp(prefix='oap-proto-')
    names = [n for n in sorted(os.listdir(os.path.join(PROTO, 'skywalking'))) if n.endswith('.proto')]
    subprocess.run(['protoc', '-I', PROTO, '--python_out', out]
                   + [os.path.join(PROTO, 'skywalking', n) for n in names], check=True)
    sys.path.insert(0, out)
    found = {}
    for name in names:
        module = importlib.import_module('skywalking.%s_pb2' % name[:-len('.proto')])
        for message in module.DESCRIPTOR.message_types_by_name:
            found[message] = getattr(module, message)
    shutil.rmtree(out)
    return found


MESSAGES = compile_protos()


def service_id(name):
    return base64.b64encode(name.encode()).decode() + '.1'


# ---- analysis -------------------------------------------------------------------------------------

class Node:
    def __init__(self, text):
        self.text, self.hits, self.children = text, [], []

    def child(self, text):
        for c in self.children:
            if c.text == text:
                return c
        self.children.append(Node(text))
        return self.children[-1]

    @property
    def count(self):
        return len(self.hits)

    @property
    def duration(self):
        total, hits = 0, sorted(self.hits)
        for (seq, t), (next_seq, next_t) in zip(hits, hits[1:]):
            if next_seq == seq + 1:
                total += next_t - t
        return total

    @property
    def self_duration(self):
        return self.duration - sum(c.duration for c in self.children)

    def walk(self, path=()):
        path += (self.text,)
        yield path, self
        for c in self.children:
            yield from c.walk(path)


def analyse(snapshots, ranges, limit=ANALYSIS_LIMIT):
    """snapshots: (sequence, time, frames); ranges: (start, end) inclusive. Returns trees and a tip."""
    wanted, asked = [], 0
    for start, end in ranges:
        inside = [s[0] for s in snapshots if start <= s[1] <= end]
        if not inside:
            continue
        low, high = min(inside), max(inside)
        asked += high - low + 1
        wanted += [s for s in snapshots if low <= s[0] <= high and s[0] < low + limit]
    seen, trees = set(), []
    for seq, t, frames in wanted:
        if seq in seen or not frames:
            continue
        seen.add(seq)
        root = next((r for r in trees if r.text == frames[0]), None)
        if root is None:
            root = Node(frames[0])
            trees.append(root)
        node = root
        node.hits.append((seq, t))
        for text in frames[1:]:
            node = node.child(text)
            node.hits.append((seq, t))
    return trees, 'cut' if asked > limit else None


# ---- the server -----------------------------------------------------------------------------------

class Task:
    def __init__(self, **fields):
        self.__dict__.update(fields)


class Abort(Exception):
    def __init__(self, code, text):
        super().__init__(text)
        self.code, self.text = code, text


STREAMS = ('collectSnapshot', 'collect', 'log')
CODES = {'unavailable': grpc.StatusCode.UNAVAILABLE, 'denied': grpc.StatusCode.PERMISSION_DENIED,
         'unauthenticated': grpc.StatusCode.UNAUTHENTICATED, 'internal': grpc.StatusCode.INTERNAL,
         'unimplemented': grpc.StatusCode.UNIMPLEMENTED, 'unknown': grpc.StatusCode.UNKNOWN,
         'exhausted': grpc.StatusCode.RESOURCE_EXHAUSTED}


class Oap(grpc.GenericRpcHandler):
    """One server. self.moods: method name -> what it does instead of answering: a key of CODES,
    'slow:SECONDS', 'hang' (no answer, ever), 'partial:N' (breaks a stream after N messages),
    'raw' (answers self.raw), or a function that gets the request and returns bytes."""

    def __init__(self, address='127.0.0.1:0', token=None, tls=None, strict=True):
        self.lock = threading.Condition()
        self.token = token
        self.strict = strict  # refuse what a real server would refuse or lose
        self.moods = {}
        self.raw = b''
        self.tasks = []
        self.logs = []  # (task id, instance, operation)
        self.polls = []  # (service, instance, lastCommandTime)
        self.instances = {}  # (service, instance) -> {'pings', 'layer', 'properties', 'reports'}
        self.snapshots = {}  # (task id, segment id, sequence) -> (time, frames)
        self.repeats = []  # keys that came again
        self.segments = {}  # segment id -> SegmentObject
        self.segment_repeats = []
        self.log_lines = []
        self.finishes = []  # (service, instance, task id)
        self.calls = []  # (method, ok)
        self.streams = []  # messages of each collectSnapshot
        self.complaints = []  # what is wrong with what agents sent
        self.stopping = threading.Event()
        self.server = None
        self.tls = tls
        self.start(address)

    # -- life --

    def start(self, address='127.0.0.1:0'):
        self.stopping.clear()
        self.server = grpc.server(futures.ThreadPoolExecutor(32), handlers=(self,), options=(
            ('grpc.max_receive_message_length', 50 << 20), ('grpc.max_send_message_length', -1),
            ('grpc.so_reuseport', 0), ('grpc.http2.min_ping_interval_without_data_ms', 300000)))
        if self.tls:
            cert, key, ca = self.tls
            credentials = grpc.ssl_server_credentials([(key, cert)], ca, ca is not None)
            port = self.server.add_secure_port(address, credentials)
        else:
            port = self.server.add_insecure_port(address)
        if not port:
            raise OSError('cannot listen on ' + address)
        self.port = port
        self.address = address.rsplit(':', 1)[0] + ':%d' % port
        self.server.start()

    def stop(self, grace=0):
        self.stopping.set()
        if self.server:
            self.server.stop(grace).wait()
        self.server = None

    def restart(self):
        self.stop()
        self.start(self.address)

    def wait_for(self, condition, timeout=10):
        """Waits until condition() is true; returns its value, False after the timeout."""
        end = time.monotonic() + timeout
        with self.lock:
            while True:
                value = condition()
                if value or time.monotonic() >= end:
                    return value
                self.lock.wait(min(0.2, max(0, end - time.monotonic())))

    # -- tasks --

    def create_task(self, service, endpoint, duration=1, threshold=0, period=10, count=5, start=None,
                    instance=None, create=None, check=True, **extra):
        """As createProfileTask; returns the id, or raises ValueError with the errorReason."""
        now = now_ms()
        start = start if start and start > 0 else now
        if check:
            reason = self.why_not(service, endpoint, duration, threshold, period, count, start)
            if reason:
                raise ValueError(reason)
        with self.lock:
            last = max([t.create for t in self.tasks], default=0)
            created = create or max(now, last + 1)
            task = Task(id='%d_%s' % (created, service_id(service)), service=service, endpoint=endpoint,
                        duration=duration, threshold=threshold, period=period, count=count, start=start,
                        create=created, instance=instance, extra=extra)
            self.tasks.append(task)
        return task.id

    def why_not(self, service, endpoint, duration, threshold, period, count, start):
        if not service:
            return 'service cannot be null'
        if not endpoint:
            return 'endpoint name cannot be empty'
        if duration < 1:
            return 'monitor duration must greater than 1 minutes'
        if threshold < 0:
            return 'min duration threshold must greater than or equals zero'
        if count <= 0:
            return 'max sampling count must greater than zero'
        if duration > 15:
            return 'monitor duration must less than 15 minutes'
        if period < 10:
            return 'dump period must be greater than or equals 10 milliseconds'
        if count >= 10:
            return 'max sampling count must less than 10'
        end = start + duration * 60000
        earlier = [t for t in self.tasks if t.service == service and t.start <= end]
        if earlier:
            latest = max(earlier, key=lambda t: t.start)
            if latest.start + latest.duration * 60000 >= start:
                return 'current service already has monitor task execute at this time'
        return None

    @staticmethod
    def command(task):
        args = {'SerialNumber': str(uuid.uuid4()), 'TaskId': task.id, 'EndpointName': task.endpoint,
                'Duration': task.duration, 'MinDurationThreshold': task.threshold,
                'DumpPeriod': task.period, 'MaxSamplingCount': task.count, 'StartTime': task.start,
                'CreateTime': task.create}
        if task.instance is not None:
            args['InstanceName'] = task.instance
        args.update(task.extra)
        command = MESSAGES['Command'](command='ProfileTaskQuery')
        for key, value in args.items():
            if value is not None:
                command.args.add(key=key, value=str(value))
        return command

    # -- calls --

    def service(self, details):
        method = details.method.rsplit('/', 1)[1]
        package = details.method.split('/')[1]
        known = {'ProfileTask': ('getProfileTaskCommands', 'collectSnapshot', 'reportTaskFinish'),
                 'ManagementService': ('reportInstanceProperties', 'keepAlive'),
                 'TraceSegmentReportService': ('collect', 'collectInSync'),
                 'LogReportService': ('log',)}
        name = package.replace('skywalking.v3.', '', 1)
        if name == 'LogReportService' and method == 'collect':
            method = 'log'  # the other "collect" is the segments'
        if method not in known.get(name, ()) or self.moods.get(method) == 'unimplemented':
            with self.lock:
                self.calls.append((method, False))
                self.lock.notify_all()
            return None
        if method in STREAMS:
            return grpc.stream_unary_rpc_method_handler(
                lambda stream, context: self.run(method, stream, context))
        return grpc.unary_unary_rpc_method_handler(
            lambda request, context: self.run(method, request, context))

    def run(self, method, request, context):
        try:
            self.check_token(context)
            mood = self.moods.get(method)
            if callable(mood):
                answer = mood(request)
            else:
                answer = self.in_mood(method, mood, request)
        except Abort as e:
            with self.lock:
                self.calls.append((method, False))
                self.lock.notify_all()
            context.abort(e.code, e.text)
        with self.lock:
            self.calls.append((method, True))
            self.lock.notify_all()
        return answer

    def check_token(self, context):
        sent = dict(context.invocation_metadata()).get('authentication')
        if self.token is not None and sent != self.token:
            raise Abort(grpc.StatusCode.PERMISSION_DENIED, 'token mismatch')

    def in_mood(self, method, mood, request):
        if mood in CODES:
            raise Abort(CODES[mood], 'in a mood')
        if mood == 'hang':
            self.stopping.wait(120)
            raise Abort(grpc.StatusCode.UNAVAILABLE, 'stopped')
        if mood == 'raw':
            if method in STREAMS:
                for _ in request:
                    pass
            return self.raw
        if mood and mood.startswith('slow:'):
            self.stopping.wait(float(mood[5:]))
        limit = int(mood[8:]) if mood and mood.startswith('partial:') else None
        answer = getattr(self, 'on_' + method)
        return answer(request, limit) if method in STREAMS else answer(request)

    @staticmethod
    def commands(list_=()):
        return MESSAGES['Commands'](commands=list_).SerializeToString()

    def parse(self, name, data):
        try:
            return MESSAGES[name].FromString(data)
        except Exception as e:
            self.complaints.append('%s: %s' % (name, e))
            raise Abort(grpc.StatusCode.INTERNAL, str(e))

    def complain(self, condition, text):
        if not condition:
            self.complaints.append(text)

    def on_getProfileTaskCommands(self, data):
        query = self.parse('ProfileTaskCommandQuery', data)
        now, given = now_ms(), []
        with self.lock:
            self.polls.append((query.service, query.serviceInstance, query.lastCommandTime))
            for task in self.tasks:
                if task.service != query.service or task.create <= query.lastCommandTime:
                    continue
                if abs(task.start - now) > WINDOW_MS:
                    continue
                self.logs.append((task.id, query.serviceInstance, 'NOTIFIED'))
                given.append(self.command(task))
            self.lock.notify_all()
        return self.commands(given)

    def on_collectSnapshot(self, stream, limit):
        n = 0
        for data in stream:
            if limit is not None and n >= limit:
                raise Abort(grpc.StatusCode.UNAVAILABLE, 'broken off')
            snapshot = self.parse('ThreadSnapshot', data)
            key = (snapshot.taskId, snapshot.traceSegmentId, snapshot.sequence)
            n += 1
            with self.lock:
                self.complain(len(data) < 50 << 20, 'message of %d bytes' % len(data))
                if key in self.snapshots:
                    self.repeats.append(key)
                self.snapshots[key] = (snapshot.time, tuple(snapshot.stack.codeSignatures))
        with self.lock:
            self.streams.append(n)
            self.lock.notify_all()
        return self.commands()

    def on_collect(self, stream, limit):
        n = 0
        for data in stream:
            if limit is not None and n >= limit:
                raise Abort(grpc.StatusCode.UNAVAILABLE, 'broken off')
            self.keep_segment(self.parse('SegmentObject', data))
            n += 1
        return self.commands()

    def on_log(self, stream, limit):
        for data in stream:
            with self.lock:
                self.log_lines.append(self.parse('LogData', data))
                self.lock.notify_all()
        return self.commands()

    def on_collectInSync(self, data):
        for segment in self.parse('SegmentCollection', data).segments:
            self.keep_segment(segment)
        return self.commands()

    def keep_segment(self, segment):
        with self.lock:
            self.complain(any(s.spanId == 0 for s in segment.spans), 'segment without span 0')
            self.complain(0 < len(segment.traceSegmentId) <= 150, 'segment id')
            self.complain(0 < len(segment.traceId) <= 150, 'trace id')
            if segment.traceSegmentId in self.segments:
                self.segment_repeats.append(segment.traceSegmentId)
            self.segments[segment.traceSegmentId] = segment
            self.lock.notify_all()

    def on_reportTaskFinish(self, data):
        report = self.parse('ProfileTaskFinishReport', data)
        with self.lock:
            self.finishes.append((report.service, report.serviceInstance, report.taskId))
            if any(t.id == report.taskId for t in self.tasks):
                self.logs.append((report.taskId, report.serviceInstance, 'EXECUTION_FINISHED'))
            self.lock.notify_all()
        return self.commands()

    def instance(self, message):
        key = (message.service, message.serviceInstance)
        self.complain(len(message.service) <= 70 and len(message.serviceInstance) <= 70, 'name too long')
        return self.instances.setdefault(key, {'pings': 0, 'reports': 0, 'layer': '', 'properties': {}})

    def on_keepAlive(self, data):
        ping = self.parse('InstancePingPkg', data)
        with self.lock:
            entry = self.instance(ping)
            entry['pings'] += 1
            entry['layer'] = ping.layer
            self.lock.notify_all()
        return self.commands()

    def on_reportInstanceProperties(self, data):
        report = self.parse('InstanceProperties', data)
        with self.lock:
            entry = self.instance(report)
            entry['reports'] += 1
            entry['properties'] = {p.key: p.value for p in report.properties}
            self.lock.notify_all()
        return self.commands()

    # -- questions that a user asks --

    def task_segments(self, task_id):
        """Segments that the task's page would show: sequence 0 is there and so is the segment."""
        with self.lock:
            ids = [s for (t, s, seq) in self.snapshots if t == task_id and seq == 0]
            return [self.segments[s] for s in ids if s in self.segments]

    def segment_snapshots(self, segment_id):
        with self.lock:
            return sorted((seq, t, frames) for (_, s, seq), (t, frames) in self.snapshots.items()
                          if s == segment_id)

    def analyse_segment(self, segment_id, ranges=None):
        segment = self.segments[segment_id]
        if ranges is None:
            ranges = [(segment.spans[0].startTime, segment.spans[0].endTime)]
        return analyse(self.segment_snapshots(segment_id), ranges)

    def check_segment(self, segment_id):
        """What every segment and its snapshots must keep to; a list of what is wrong."""
        span, wrong = self.segments[segment_id].spans[0], []
        snapshots = self.segment_snapshots(segment_id)
        if [s[0] for s in snapshots] != list(range(len(snapshots))):
            wrong.append('holes in the sequence')
        if not all(span.startTime <= s[1] <= span.endTime for s in snapshots):
            wrong.append('snapshot outside the span')
        if any(a[1] > b[1] for a, b in zip(snapshots, snapshots[1:])):
            wrong.append('time runs backwards')
        if len({s[2][0] for s in snapshots}) > 1:
            wrong.append('several roots')
        if any(len(s[2]) > 500 for s in snapshots):
            wrong.append('stack deeper than 500')
        return wrong


# ---- a network that fails -------------------------------------------------------------------------

class Relay:
    """A TCP relay before a server: 'pass', 'freeze' (connections stay, nothing moves), 'drop' (all
    connections are cut, new ones too)."""

    def __init__(self, target):
        self.target, self.mode = target, 'pass'
        self.pairs = []
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.address = '127.0.0.1:%d' % self.listener.getsockname()[1]
        self.n_accepted = 0
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            self.n_accepted += 1
            if self.mode == 'drop':
                client.close()
                continue
            host, port = self.target.rsplit(':', 1)
            try:
                server = socket.create_connection((host, int(port)))
            except OSError:
                client.close()
                continue
            self.pairs.append((client, server))
            for a, b in ((client, server), (server, client)):
                threading.Thread(target=self.pump, args=(a, b), daemon=True).start()

    def pump(self, source, sink):
        try:
            while True:
                data = source.recv(65536)
                if not data:
                    break
                while self.mode == 'freeze':
                    time.sleep(0.02)
                if self.mode == 'drop':
                    break
                sink.sendall(data)
        except OSError:
            pass
        self.cut((source, sink))

    @staticmethod
    def cut(pair):
        for s in pair:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def set(self, mode):
        self.mode = mode
        if mode == 'drop':
            for pair in self.pairs:
                self.cut(pair)

    def close(self):
        self.set('drop')
        self.listener.close()
        for pair in self.pairs:
            for s in pair:
                s.close()


# ---- as a program ---------------------------------------------------------------------------------

def tree_json(node):
    return {'text': node.text, 'count': node.count, 'duration': node.duration,
            'self': node.self_duration, 'children': [tree_json(c) for c in node.children]}


def answer(oap, request):
    call = request.pop('call')
    if call == 'create_task':
        return {'id': oap.create_task(**request)}
    if call == 'mood':
        oap.moods[request['method']] = request['mood']
        return {}
    if call == 'state':
        with oap.lock:
            return {'tasks': [t.id for t in oap.tasks], 'logs': oap.logs, 'finishes': oap.finishes,
                    'polls': oap.polls[-100:], 'complaints': oap.complaints,
                    'instances': [{'service': s, 'instance': i, **e}
                                  for (s, i), e in oap.instances.items()],
                    'segments': [{'id': s.traceSegmentId, 'service': s.service,
                                  'instance': s.serviceInstance, 'endpoint': s.spans[0].operationName}
                                 for s in oap.segments.values()]}
    if call == 'analyse':
        trees, tip = oap.analyse_segment(request['segment'])
        return {'trees': [tree_json(t) for t in trees], 'tip': tip,
                'wrong': oap.check_segment(request['segment'])}
    raise ValueError('unknown call ' + call)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--port', type=int, default=0)
    parser.add_argument('--token')
    options = parser.parse_args()
    oap = Oap('127.0.0.1:%d' % options.port, options.token)
    print(json.dumps({'address': oap.address}), flush=True)
    for line in sys.stdin:
        try:
            result = answer(oap, json.loads(line))
        except (ValueError, KeyError, TypeError) as e:
            result = {'error': str(e)}
        print(json.dumps(result), flush=True)
    oap.stop()


if __name__ == '__main__':
    main()
