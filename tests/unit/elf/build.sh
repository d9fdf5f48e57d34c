#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# build.sh SOURCE-FOLDER OUTPUT-FOLDER STAMP: the ELF files that the symbol tests read. What needs a tool
# that is not there is left out; the tests that want it then say so and are skipped.
set -eu
src=$(cd "$1" && pwd)
stamp=$(realpath "$3")
rm -rf "$2"
mkdir -p "$2"
cd "$2"
cc=${CC:-cc}
have() { command -v "$1" >/dev/null 2>&1; }

# Puts the debug file of $1 under debug/.build-id, strips $1 of everything.
split_by_build_id() {
	id=$(readelf -n "$1" | sed -n 's/.*Build ID: //p')
	dir=debug/.build-id/$(echo "$id" | cut -c1-2)
	mkdir -p "$dir"
	objcopy --only-keep-debug "$1" "$dir/$(echo "$id" | cut -c3-).debug"
	strip "$1"
}

$cc -g -O2 -Wl,--build-id -o lines "$src/lines.c"
cp lines lines-split && split_by_build_id lines-split
# The same build ID, so only debug/ tells them apart; here DWARF is compressed.
mkdir packed && objcopy --compress-debug-sections lines packed/lines

# By debug link, without a build ID: beside, in .debug, below a debug folder; and with a wrong CRC.
$cc -g -O2 -Wl,--build-id=none -o linked "$src/lines.c"
mkdir -p beside/.debug wrong "global$(pwd)/third"
objcopy --only-keep-debug linked beside/linked.debug
objcopy --strip-all --add-gnu-debuglink=beside/linked.debug linked beside/linked
mkdir -p second/.debug third
cp beside/linked second/linked && cp beside/linked.debug second/.debug/
cp beside/linked third/linked && cp beside/linked.debug "global$(pwd)/third/"
cp beside/linked wrong/linked && cp beside/linked.debug wrong/
printf x >>wrong/linked.debug
strip -o nothing linked

$cc -g -O2 -fPIC -shared -Wl,--version-script="$src/versions.map" -o libversions.so "$src/versions.c"

# .gnu_debugdata: the symbols that .dynsym lacks, in a small ELF file, xz-compressed.
if have xz; then
	objcopy --only-keep-debug lines mini.debug
	objcopy -S --remove-section=.comment --keep-symbol=hidden --keep-symbol=outer mini.debug mini.small
	xz -k mini.small
	strip -o mini lines
	objcopy --add-section .gnu_debugdata=mini.small.xz mini
fi
if have clang; then
	clang -g -O2 -Wl,--build-id -o lines-clang "$src/lines.c"
	clang -gdwarf-4 -O2 -Wl,--build-id -o lines-clang4 "$src/lines.c"
fi
$cc -gdwarf-4 -O2 -Wl,--build-id -o lines-dwarf4 "$src/lines.c"
if have "${CXX:-c++}"; then
	"${CXX:-c++}" -g -O2 -Wl,--build-id -o names-c++ "$src/names.cc"
fi
if have rustc && rustc -g -O -o names-rust "$src/names.rs" 2>/dev/null; then
	rustc -g -O -C symbol-mangling-version=v0 -o names-rust0 "$src/names.rs" 2>/dev/null || :
fi
# Two programs that share a dwz supplement, in the layout of Debian's debug packages.
if have dwz; then
	$cc -g -O2 -Wl,--build-id -DTWO -o dwz1 "$src/lines.c"
	$cc -g -O1 -Wl,--build-id -o dwz2 "$src/lines.c"
	mkdir -p dwz/.dwz
	dwz -m dwz/.dwz/common.debug -M "$(pwd)/dwz/.dwz/common.debug" dwz1 dwz2 2>/dev/null || :
	objcopy --dump-section .gnu_debugaltlink=altlink dwz1 /dev/null 2>/dev/null || rm -f dwz1 dwz2
	# One that names a supplement which is not there.
	[ ! -f dwz1 ] || sed 's,/common.debug,/missing.dbug,' dwz1 >dwz-lost
fi
touch "$stamp"
