"""Stages of a frame: what callgrind counted, by functions."""

from __future__ import annotations

from benchmarks.stages import STAGES, self_costs, stage_of

FILE = """\
version: 1
events: Ir
fl=(1) machine.cpp
fn=(1) cule::CachedLogRenderer<cule::LogRenderer<cule::CollisionSink> >::run(unsigned int)
12 40
+3 2
cfn=(2) cule::copy_effective_at_once(unsigned int*)
calls=3 7
* 900
-1 5
fn=(2)
7 900

fn=(3) 0x0000000005
0 33
"""


def test_costs_leave_out_called_functions() -> None:
    costs = self_costs(FILE.splitlines())
    assert [costs[name] for name in sorted(costs)] == [33, 47, 900]


def test_functions_belong_to_the_first_stage_that_names_them() -> None:
    sink = "cule::CachedLogRenderer<cule::LogRenderer<cule::{}> >::{}(unsigned int)"
    found = [
        stage_of(name)
        for name in (
            "0x0000000005",
            sink.format("CollisionSink", "walk"),
            sink.format("CollisionSink", "run"),
            sink.format("ObservingSink", "draw"),
            sink.format("ObservingSink", "run"),
            "__memcpy_avx_unaligned_erms",
            "cule::Batch::advance(int)",
        )
    ]
    assert found == [
        "translated code, log append",
        "not drawn: starts of scanlines, reuse",
        "not drawn: writes, latches",
        "drawn: segments, painting",
        "drawn: writes",
        "copies, comparisons",
        "rules, loops, rest",
    ]
    assert set(found) <= {name for name, _ in STAGES}
