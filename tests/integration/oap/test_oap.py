#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The stand-in against what is known of the real server: the analysis' nine vectors, and task rules."""
import unittest

from oap import Oap, analyse, now_ms

# stacks, ranges in dump indexes, then path -> (count, duration, self)
VECTORS = [
    ('ABC AB ABCD', [(0, 2)], {'A': (3, 20, 0), 'AB': (3, 20, 20), 'ABC': (2, 0, 0), 'ABCD': (1, 0, 0)}),
    ('ABC BCD', [(0, 1)], {'A': (1, 0, 0), 'AB': (1, 0, 0), 'ABC': (1, 0, 0), 'B': (1, 0, 0),
                           'BC': (1, 0, 0), 'BCD': (1, 0, 0)}),
    ('ABCD AB ABC AB ABCD', [(0, 4)], {'A': (5, 40, 0), 'AB': (5, 40, 40), 'ABC': (3, 0, 0),
                                       'ABCD': (2, 0, 0)}),
    ('ABC ABCA ACA ABCB', [(0, 3)], {'A': (4, 30, 20), 'AB': (3, 10, 0), 'ABC': (3, 10, 10),
                                     'ABCA': (1, 0, 0), 'ABCB': (1, 0, 0), 'AC': (1, 0, 0),
                                     'ACA': (1, 0, 0)}),
    ('ABC ABBC ABBB ACB', [(0, 3)], {'A': (4, 30, 10), 'AB': (3, 20, 10), 'ABC': (1, 0, 0),
                                     'ABB': (2, 10, 10), 'ABBC': (1, 0, 0), 'ABBB': (1, 0, 0),
                                     'AC': (1, 0, 0), 'ACB': (1, 0, 0)}),
    ('ABC AB DE', [(0, 2)], {'A': (2, 10, 0), 'AB': (2, 10, 10), 'ABC': (1, 0, 0), 'D': (1, 0, 0),
                             'DE': (1, 0, 0)}),
    ('A A A A A A A A A A A', [(0, 10)], {'A': (10, 90, 90)}),
    ('A A A AC A A AD', [(0, 2), (4, 5)], {'A': (5, 30, 30)}),
    ('A A A A B A A', [(0, 2), (1, 3), (5, 6)], {'A': (6, 40, 40)}),
]


class Analysis(unittest.TestCase):
    def test_vectors(self):
        for text, ranges, want in VECTORS:
            snapshots = [(i, i * 10, list(s)) for i, s in enumerate(text.split())]
            trees, _ = analyse(snapshots, [(a * 10, b * 10) for a, b in ranges], 10)
            got = {''.join(path): (node.count, node.duration, node.self_duration)
                   for tree in trees for path, node in tree.walk()}
            self.assertEqual(got, want, text)

    def test_a_gap_splits_a_run(self):
        trees, _ = analyse([(0, 0, ['A']), (1, 10, ['A']), (3, 30, ['A'])], [(0, 30)])
        self.assertEqual(trees[0].duration, 10)


class Tasks(unittest.TestCase):
    def setUp(self):
        self.oap = Oap()
        self.addCleanup(self.oap.stop)

    def assert_refused(self, text, **fields):
        with self.assertRaisesRegex(ValueError, text):
            self.oap.create_task('s', **{'endpoint': '/e', **fields})

    def test_limits(self):
        self.assert_refused('endpoint', endpoint='')
        self.assert_refused('duration', duration=0)
        self.assert_refused('duration', duration=16)
        self.assert_refused('threshold', threshold=-1)
        self.assert_refused('count', count=0)
        self.assert_refused('count', count=10)
        self.assert_refused('period', period=9)

    def test_one_task_at_a_time(self):
        start = now_ms()
        self.oap.create_task('s', '/e', duration=1, start=start)
        self.assert_refused('already', start=start + 60000)
        self.oap.create_task('s', '/e', start=start + 60001)
        self.oap.create_task('other', '/e', start=start)


if __name__ == '__main__':
    unittest.main()
