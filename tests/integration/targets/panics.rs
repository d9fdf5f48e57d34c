// SPDX-License-Identifier: Apache-2.0
//! panics: panics that cross the endpoint, COUNT times, with a destructor on the way.
use std::io::{BufRead, Write};
use std::panic;
use std::sync::atomic::{AtomicI64, Ordering};

static CALLS: AtomicI64 = AtomicI64::new(0);
static DROPPED: AtomicI64 = AtomicI64::new(0);

struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        DROPPED.fetch_add(1, Ordering::Relaxed);
    }
}

pub struct Router {
    pub offset: i64,
}

impl Router {
    #[inline(never)]
    pub fn handle_request(&self, path: &str, n: i64) -> i64 {
        CALLS.fetch_add(1, Ordering::Relaxed);
        if n % 2 == 1 {
            panic!("{}", path);
        }
        n + self.offset
    }

    #[inline(never)]
    pub fn guarded(&self, path: &str, n: i64) -> i64 {
        let _guard = Guard;
        self.handle_request(path, n)
    }
}

fn wait_for_line(say: &str) {
    println!("{say}");
    std::io::stdout().flush().unwrap();
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).unwrap();
}

fn main() {
    let count: i64 = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(1);
    let router = Router { offset: std::env::args().count() as i64 };
    let (mut caught, mut bad) = (0, 0);
    panic::set_hook(Box::new(|_| {}));
    wait_for_line("ready");
    for i in 0..count {
        let result = panic::catch_unwind(|| router.guarded("/orders/7", i));
        match result {
            Ok(value) => bad += i64::from(value != i + router.offset),
            Err(_) => caught += 1,
        }
    }
    println!("calls {}", CALLS.load(Ordering::Relaxed));
    wait_for_line("done");
    let ok = bad == 0 && caught == count / 2 && DROPPED.load(Ordering::Relaxed) == count;
    std::process::exit(i32::from(!ok));
}
