// SPDX-License-Identifier: Apache-2.0
//! strs: `&str` and `String` arguments of functions and methods, also called through a table, COUNT times each.
use std::io::{BufRead, Write};
use std::thread::sleep;
use std::time::Duration;

pub struct Router {
    pub offset: i64,
}

pub trait Handler {
    fn handle(&self, path: &str) -> i64;
}

/// Uses the text, so that the compiler passes it.
fn nap(text: &str, n: i64) -> i64 {
    sleep(Duration::from_millis(4));
    text.len() as i64 + n + i64::from(text.as_bytes()[0] == 0)
}

impl Handler for Router {
    #[inline(never)]
    fn handle(&self, path: &str) -> i64 {
        nap(path, self.offset)
    }
}

/// That there are two makes calls of the trait go through its table.
struct Closed;

impl Handler for Closed {
    #[inline(never)]
    fn handle(&self, path: &str) -> i64 {
        path.len() as i64
    }
}

#[inline(never)]
pub fn route(path: &str, depth: i64) -> i64 {
    nap(path, depth)
}

#[inline(never)]
pub fn owned(path: &String) -> i64 {
    nap(path, 0)
}

fn wait_for_line(say: &str) {
    println!("{say}");
    std::io::stdout().flush().unwrap();
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).unwrap();
}

fn main() {
    let count: i64 = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(2);
    let offset = std::env::args().count() as i64;
    let router: Box<dyn Handler> = if offset > 0 { Box::new(Router { offset }) } else { Box::new(Closed) };
    // Parts of one text: not one of them ends where its text ends.
    let all = String::from("/orders/7/login");
    let mut bad = 0;
    wait_for_line("ready");
    for i in 0..count {
        let path = if i % 2 == 0 { &all[..9] } else { &all[9..15] };
        bad += i64::from(router.handle(path) != path.len() as i64 + offset);
        bad += i64::from(route(path, i) != path.len() as i64 + i);
        bad += i64::from(owned(&path.to_string()) != path.len() as i64);
    }
    wait_for_line("done");
    std::process::exit(i32::from(bad != 0));
}
