#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Names, conditions and ends of endpoints, as the kernel evaluates them."""
import subprocess

from harness import Target, check, folder, load, main, need_bpf, profiling, test

OPTIONS = ("--min-duration", "10ms", "--period", "5ms")


def play(spec, scene="longjmp"):
    """The scene longjmp calls request("jumps") three times and request("returns") once."""
    with folder() as path:
        with Target("scenes", scene, truth=path / "truth") as target:
            with profiling(path / "out.json", "-p", target.pid, "--endpoint", spec, *OPTIONS):
                target.play()
        return load(path / "out.json")


def names(profile):
    return sorted(s.name for s in profile.spans)


@test
def text_argument():
    check(names(play("request(str(arg0))")) == ["jumps"] * 3 + ["returns"], "names of the argument")


@test
def parameter_by_name():
    """By DWARF: a pointer to characters is a text."""
    check(names(play('request("<" name ">")')) == ["<jumps>"] * 3 + ["<returns>"], "names by DWARF")


@test
def condition_exact():
    profile = play('request(str(arg0));if=str(arg0)=="jumps"')
    check(profile.calls() == 3 and names(profile) == ["jumps"] * 3, f"{profile.calls()} {names(profile)}")


@test
def condition_prefix():
    profile = play('request(str(arg0));if=str(arg0)^="ret"')
    check(profile.calls() == 1 and names(profile) == ["returns"], f"{profile.calls()} {names(profile)}")


@test
def condition_exact_is_no_prefix():
    check(play('request(str(arg0));if=str(arg0)=="ret"').calls() == 0, "no call has this name")


@test
def condition_on_a_number():
    check(play('request(str(arg0));if=u8(arg0)==\'j\' && u8(arg0+1)>=\'u\'').calls() == 3, "calls")


@test
def match_glob_and_regex():
    check(names(play("request(str(arg0));match=ret*")) == ["returns"], "glob")
    check(names(play("request(str(arg0));match=~^j.*s$")) == ["jumps"] * 3, "regex")


@test
def return_value():
    check(names(play('request;leave-name="returned " int(ret)', "returns")) == ["returned 1"], "read at leave")


@test
def value_of_entry_at_leave():
    check(names(play('request;leave-name=str(entry(arg0)) " " int(ret)', "returns")) == ["returns 1"], "kept")


@test
def global_by_symbol():
    """The pointer to the truth file's path: static, found by symbol."""
    check(all(n.endswith("truth") for n in names(play("request(str(*global(truth_path)))"))), "global")


@test
def unreadable_memory_falls_back():
    with folder() as path:
        with Target("scenes", "longjmp", truth=path / "truth") as target:
            with profiling(path / "out.json", "-p", target.pid, "--endpoint", "request(str(8))", *OPTIONS) as command:
                target.play()
        profile = load(path / "out.json")
        check("cannot name the calls of 'request': " in command.stderr and "no such argument" in command.stderr, command.stderr)
    check(set(names(profile)) == {"request"}, f"{names(profile)}")
    check(profile.counters.get("name_fault", 0) >= 4, "faults are counted")


@test
def declared_end():
    """body_sleep is entered at once, so that the span is short; the longjmp loses nothing."""
    profile = play("request(str(arg0));end=body_longjmp")
    check(profile.calls() == 4 and profile.endpoints[0]["ended"] == 3,
          f"{profile.calls()} calls, {profile.endpoints[0]['ended']} ends")


TAIL = """
#include <stdio.h>
#include <unistd.h>
__attribute__((noinline)) int work(const char *name) { __asm__ volatile("" ::"r"(name)); usleep(50000); return 7; }
__attribute__((noinline)) int handle(const char *name) { __asm__ volatile(""); return work(name + 1); }
int main(void)
{
	puts("ready"), fflush(stdout), getchar();
	for (int i = 0; i < 3; i++)
		handle("x");
	puts("done"), fflush(stdout), getchar();
}
"""


@test
def endpoint_that_ends_in_a_jump():
    """Its frame is gone when it is looked at, and yet all time is below it."""
    with folder() as path:
        (path / "x.c").write_text(TAIL)
        subprocess.run(["gcc", "-O2", "-g", "-o", path / "x", path / "x.c"], check=True)
        with Target(path / "x") as target:
            with profiling(path / "out.json", "-p", target.pid, "--endpoint", "handle", *OPTIONS):
                target.play()
        profile = load(path / "out.json")
        check(len(profile.spans) == 3, f"{len(profile.spans)} spans")
        stacks = {tuple(x.functions) for s in profile.spans for x in s.samples}
        check({x[-1] for x in stacks} == {"handle"}, f"{stacks}")
        check(any(x[-2:] == ("work", "handle") for x in stacks), f"{stacks}")
        check(all(x.count("handle") == 1 for x in stacks), f"{stacks}")


main(needs=[need_bpf])
