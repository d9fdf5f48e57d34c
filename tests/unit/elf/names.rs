// SPDX-License-Identifier: Apache-2.0
// names.rs: Rust names.
#[inline(never)]
pub fn work(n: u64) -> u64 {
    std::hint::black_box(n) * 3
}

fn main() {
    std::process::exit((work(std::env::args().count() as u64) & 1) as i32);
}
