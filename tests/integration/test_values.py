#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Every form of a name, read by the kernel from programs of gcc, clang, g++, libc++ and rustc.

All expressions of one program are endpoints of one run: the same calls, named in each way.
"""
import re
import subprocess

from harness import TARGETS, Skip, Target, cases, check, folder, load, main, need_bpf, profiling, spanprof, test

COUNT = 4
OPTIONS = ("--min-duration", "1ms", "--period", "1ms", "--max-samples", "0", "--max-parallel", "1000")


def names_of(program, endpoints, options=()):
    """Plays the program: the set of names of each endpoint's calls, in their order."""
    specs = [o for e in endpoints for o in ("--endpoint", e)]
    with folder() as path:
        with Target(program, COUNT) as target:
            with profiling(path / "out.json", "-p", target.pid, *specs, *OPTIONS, *options) as command:
                target.play()
            check(target.end() == 0, "the target's own checks")
        profile = load(path / "out.json")
    result = [{n["name"] for n in e["names"]} for e in profile.endpoints]
    check(len(result) == len(endpoints), f"{len(result)} endpoints of {len(endpoints)}")
    for spec, e in zip(endpoints, profile.endpoints):
        check(e["calls"] == COUNT, f"{spec}: {e['calls']} calls of {COUNT}")
    return dict(zip(endpoints, result)), profile, command.stderr


def all_named(program, table, options=()):
    """A thread keeps the names of eight calls that are open at a time (WIRE_NAMED_MAX)."""
    specs = list(table)
    got = {}
    for at in range(0, len(specs), 8):
        got.update(names_of(program, specs[at:at + 8], options)[0])
    bad = [f"{spec}: {got[spec]} instead of {want}" for spec, want in table.items() if got[spec] != want]
    check(not bad, "\n".join(bad))


# What serve() of values.c is called with, twice each.
REGISTERS = {
    "serve(arg3)": {"3", "259"},
    "serve(int(rcx))": {"3", "259"},
    "serve(uint(arg3 & 0xff))": {"3"},
    "serve(hex(arg3))": {"0x3", "0x103"},
    "serve(uint(arg3 >> 8) \"/\" uint(arg3 << 1))": {"0/6", "1/518"},
    "serve(uint(arg3 * 3 + 0x10 - 1))": {"24", "792"},
    "serve(uint(arg4 - arg5))": {"44"},
    "serve(int(arg5 - arg4))": {"-44"},
    "serve(map(arg3 & 0xff, 3=\"three\", 4=\"four\") \"!\")": {"three!"},
    "serve(map(arg3, 3=\"three\"))": {"three", "259"},
    "serve(str(arg1))": {"First Text", "second text"},
    "serve(lower(str(arg1)) \":\" str(arg6))": {"first text:seventh", "second text:seventh"},
    "serve(str(arg1, arg2))": {"First", "secon"},
    "serve(str(arg1 + 2, 3))": {"rst", "con"},
    "serve(str(arg6))": {"seventh"},
    "serve(str(*(rsp + 8)))": {"seventh"},
}

# By offsets, as of a program without DWARF.
MEMORY = {
    "serve(u8(arg0) \" \" u16(arg0 + 2) \" \" u32(arg0 + 4) \" \" u64(arg0 + 8))":
        {"200 60000 4000000000 9223372036854775808", "7 8 9 10"},
    "serve(s8(arg0 + 16) \" \" s16(arg0 + 18) \" \" s32(arg0 + 20) \" \" s64(arg0 + 24))":
        {"-1 -300 -70000 -5000000000", "11 12 13 14"},
    "serve(str(*(arg0 + 32)))": {"GET", "POST"},
    "serve(str(*(arg0 + 40), u32(arg0 + 48)))": {"/index.html?x=1", "/login"},
    "serve(str(*(arg0 + 56), *(arg0 + 64) - *(arg0 + 56)))": {"/index.html", "/index"},
    "serve(str(*(*(*(arg0 + 88) + 8) + 32)))": {"POST"},
    "serve(str(arg0 + 72))": {"10.0.0.1", "10.0.0.2"},
    "serve(str(*(*global(current_request) + 32)))": {"GET", "POST"},
    "serve(str(*global(site_name)))": {"shop"},
    "serve(str(*(arg0 + 32)) \" \" str(*(arg0 + 40), u32(arg0 + 48)));normalize=path":
        {"GET /index.html", "POST /login"},
}

BY_NAME = {
    "serve(r->method)": {"GET", "POST"},
    "serve(str(r->method) \" \" str(r->uri.data, r->uri.length))": {"GET /index.html?x=1", "POST /login"},
    "serve(r->u8 \" \" r->u16 \" \" r->u32 \" \" r->u64)":
        {"200 60000 4000000000 9223372036854775808", "7 8 9 10"},
    "serve(r->s8 \" \" r->s16 \" \" r->s32 \" \" r->s64)": {"-1 -300 -70000 -5000000000", "11 12 13 14"},
    "serve(str(r->start, r->end - r->start))": {"/index.html", "/index"},
    "serve(r->peer)": {"10.0.0.1", "10.0.0.2"},
    "serve(r->others[1]->method)": {"POST"},
    "serve(text \"/\" seventh)": {"First Text/seventh", "second text/seventh"},
    "serve(str(text, bytes))": {"First", "secon"},
    "serve(current_request->method \" of \" site_name)": {"GET of shop", "POST of shop"},
    "serve(number)": {"3", "259"},
}

BAD = {
    # text that is no text, and addresses that lead nowhere
    "serve(str(arg0 + 104, 16))": {"serve"},
    "serve(str(arg3))": {"serve"},
    "serve(\"at \" str(*(*(arg3 + 8) + 8)) \" \" str(arg1))": {"at ? First Text", "at ? second text"},
    "wild(str(*(arg0 + 32)))": {"wild"},
}

BUILDS = [f"values-{c}-{p}" for c in ("gcc", "clang") for p in ("none", "full")]


@cases(BUILDS)
def registers_and_constants(build):
    all_named(build, REGISTERS)


@cases(BUILDS)
def memory(build):
    all_named(build, MEMORY)


@cases(BUILDS)
def by_name(build):
    all_named(build, BY_NAME)


@cases(BUILDS)
def nonsense(build):
    """Addresses that lead nowhere and texts that are none: no name, counted, and a message for each."""
    got, profile, err = names_of(build, list(BAD))
    check(got == BAD, f"{got}")
    check(profile.losses.get("name_fault", 0) >= 2 * COUNT, f"{profile.losses}")
    check(err.count("cannot name the calls of 'serve'") == 2 and "is no text" in err, err)


@cases(BUILDS)
def parameters_that_moved(build):
    """The compiler has dropped an unused parameter: where the others are only DWARF knows."""
    got, _, err = names_of(build, ["hidden(text)"])
    check(list(got.values()) == [{"First Text", "second text"}], f"{got}")
    if "gcc" in build:
        check(re.search(r"hidden\.(constprop|isra)\.0", err), f"what is probed is a copy of the function: {err}")
        with Target(build, 1) as target:
            # Of this one the copy gets a field only.
            status, _, err = spanprof("run", "-p", target.pid, "--endpoint", "hidden(r->method)", "--for", "1s")
            check(status == 1 and "how parameter 'r' is passed is not known" in err, err)


@cases(BUILDS)
def saved_at_entry(build):
    """Address and length are passed; what is there is there when the call ends."""
    all_named(build, {"fill;leave-name=str(entry(arg0), *entry(arg2)) \" \" int(ret)":
                      {"filled by GET 13", "filled by POST 14"},
                      "fill;leave-name=str(entry(arg0), ret)": {"filled by GET", "filled by POST"}})


@cases(BUILDS)
def read_at_the_end_function(build):
    """Its arguments, and globals, which are told by the address of this function, not of the one that begins."""
    all_named(build, {
        "serve;end=fill;leave-name=str(*(*global(current_request) + 32)) \" \" str(*global(site_name))":
            {"GET shop", "POST shop"},
        "serve;end=fill;leave-name=current_request->method \" \" uint(size)": {"GET 64", "POST 64"},
        "serve;end=hidden|fill;end-if=arg1==64;leave-name=uint(arg1)": {"64"},
        "serve(str(arg1));end=fill;end-if=str(*(*global(current_request) + 32))^=\"P\"": {"First Text", "second text"},
        "wild;end=serve;leave-name=str(arg6)": {"seventh", "wild"},
    })
    with Target(build, 1) as target:
        status, _, err = spanprof("run", "-p", target.pid, "--for", "1s", "--endpoint",
                                  "serve;end=fill|wild;leave-name=str(*global(site_name))")
        check(status == 1 and "cannot be read here" in err, err)
        _, out, err = spanprof("probes", "-p", target.pid, "--check", "serve;end=fill|wild", "--for", "10ms")
        check(re.findall(r"(?m)^end +(\w+) in ", out) == ["fill", "wild"], out + err)


@cases(BUILDS)
def alternatives(build):
    """The first one that fits this build: by DWARF, by its path, its build ID, a text in it; or none, which is said."""
    offsets, wrong = "str(*(arg0 + 32))", "str(arg3)"
    build_id = re.search(r"Build ID: ([0-9a-f]+)", subprocess.run(["readelf", "-n", TARGETS / build], capture_output=True,
                                                                  text=True, check=True).stdout)[1]
    methods = {"GET", "POST"}
    got, _, err = names_of(build, [
        f"serve(str(r->method) | {wrong})", f"serve(str(r->gone) | {offsets})",
        f"serve({wrong} @ \"*/other\" | {offsets} @ \"*/{build}\")",
        f"serve({wrong} @ \"build-id:000\" | {offsets} @ \"build-id:{build_id[:12]}\")",
        f"serve({wrong} @ \"text:filled at*\" | {offsets} @ \"text:filled by*\")",
        f"serve({wrong} @ \"text:nowhere to be found*\" | str(r->gone) | {offsets} @ \"build-id:000\")"])
    names = list(got.values())
    check(names == [methods] * 5 + [{"serve"}], f"{got}")
    check(err.count("cannot name endpoints of this build, profiling without names") == 1, err)


@test
def without_dwarf():
    """A name of a field is refused, and says why; by offsets it is read all the same."""
    with folder() as path:
        subprocess.run(["strip", "-g", "-o", path / "program", TARGETS / "values-gcc-none"], check=True)
        with Target(path / "program", 1) as target:
            status, _, err = spanprof("run", "-p", target.pid, "--endpoint", "serve(r->method)", "--for", "1s")
            check(status == 1 and "has no debug information (DWARF)" in err, err)
        all_named(path / "program", {"serve(str(r->method) | str(*(arg0 + 32)))": {"GET", "POST"}})


CONDITIONS = {
    "serve(str(arg1));if=arg3&0xff==3": COUNT,
    "serve(str(arg1));if=arg3==3": COUNT // 2,
    "serve(str(arg1));if=arg3>=0x100 && arg3<0x200": COUNT // 2,
    "serve;if=s8(arg0+16)<0": COUNT // 2,
    "serve;if=str(*(arg0+32))==\"GET\"": COUNT // 2,
    "serve;if=str(*(arg0+32))^=\"PO\"": COUNT // 2,
    "serve;if=r->u16==60000": COUNT // 2,
    "serve;if=str(r->method)==\"PUT\"": 0,
}


@cases(BUILDS)
def conditions(build):
    """Evaluated by the kernel: calls that do not hold are not counted."""
    with folder() as path:
        specs = [o for e in CONDITIONS for o in ("--endpoint", e)]
        with Target(build, COUNT) as target:
            with profiling(path / "out.json", "-p", target.pid, *specs, *OPTIONS):
                target.play()
        profile = load(path / "out.json")
    for spec, e in zip(CONDITIONS, profile.endpoints):
        check(e["calls"] == e["ended"] == CONDITIONS[spec], f"{spec}: {e['calls']} calls, {e['ended']} ends")


# Compiler and library: how a std::string is read by its register.
STRINGS = {"strings-gxx-none": "stdstring", "strings-gxx-full": "stdstring", "strings-clangxx": "stdstring",
           "strings-libcxx": "libcxxstring"}
LONG = "a text that is longer than any short string is"


@cases(list(STRINGS))
def strings_of_cxx(build):
    read = STRINGS[build]
    both = {"short", LONG}
    texts = "std::__1::basic_string<*>" if read == "libcxxstring" else "std::__cxx11::basic_string<*>"
    all_named(build, {
        f"'shop::Desk::take({texts} const&, long)'({read}(arg1))": both,
        f"'shop::Desk::take(shop::Order const&)'({read}(arg1 + 8) \"/\" *arg1)":
            {f"{'short' if i % 2 == 0 else LONG}/{i}" for i in range(COUNT)},
        "'shop::Desk::take(long)'(arg1)": {str(i) for i in range(COUNT)},
        f"shop::by_value({read}(arg0))": both,
        f"shop::by_view({'str(arg0, arg1)' if read == 'libcxxstring' else 'str(arg1, arg0)'})": both,
        "'*shop::typed<int>*'(arg0)": {str(i) for i in range(COUNT)},
    })


@cases([b for b in STRINGS if b != "strings-libcxx"])
def strings_by_name(build):
    all_named(build, {"'shop::Desk::take(std::*'(what)": {"short", LONG}, "shop::by_value(what)": {"short", LONG},
                      "shop::by_view(what)": {"short", LONG},
                      "'shop::Desk::take(shop::Order const&)'(order.customer)": {"short", LONG}})


@cases(list(STRINGS))
def several_functions_of_one_name(build):
    with Target(build, 1) as target:
        for name, want in (("shop::Desk::take", 3), ("'*shop::typed<*>*'", 2)):
            status, _, err = spanprof("run", "-p", target.pid, "--endpoint", name, "--for", "1s")
            check(status == 1 and f"{want} functions" in err, err)


@cases(["strs", "strs-cf"])
def strings_of_rust(build):
    if not (TARGETS / build).exists():
        raise Skip("rustc is not installed")
    both = {"/orders/7", "/login"}
    all_named(build, {"strs::route(ruststr(arg0))": both, "strs::route(path)": both, "strs::owned(path)": both,
                      "'<strs::Router as strs::Handler>::handle'(ruststr(arg1))": both,
                      "strs::route(str(arg0, arg1) \" \" arg2)":
                          {f"{'/orders/7' if i % 2 == 0 else '/login'} {i}" for i in range(COUNT)}})


WITH_ENDBR64 = {"values-gcc-full": "serve", "values-clang-full": "serve", "strings-gxx-full": "shop::by_view",
                "strs-cf": "'<strs::Router as strs::Handler>::handle'"}


@cases(list(WITH_ENDBR64))
def endbr64_is_passed_over(build):
    """These builds have it, or they test nothing; the probe is behind it."""
    if not (TARGETS / build).exists():
        raise Skip("the compiler is not installed")
    with Target(build, 1) as target:
        status, out, err = spanprof("probes", "-p", target.pid, "--for", "100ms", "--check", WITH_ENDBR64[build])
        check(status == 0, err)
        check("(+0x0)" not in out and ": cheap" in out, out)


main(needs=[need_bpf])
