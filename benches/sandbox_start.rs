//! Start of a sandbox: ours (start, one `true`, finish) beside plain `bwrap` with the same profile running `bash -c true`, in turn.
//!
//! One JSON line per figure; `ratio` is ours over the other. Target: at most 1.3.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a bench prints its figures and has nobody to hand an error to")]

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use harness_evo::base::Snapshot;
use harness_evo::sandbox::{BackendKind, Policy, Sandbox, open};

const ROUNDS: usize = 200;

/// The profile of the backend, by hand: namespaces, mounts and sizes, without the session around it.
const PROFILE: &str = "--unshare-all --unshare-user --disable-userns --die-with-parent --new-session --uid 1000 --gid 1000 --hostname sandbox \
     --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/sbin /sbin --symlink usr/lib /lib --symlink usr/lib64 /lib64 --ro-bind /etc /etc \
     --proc /proc --dev /dev --size 16777216 --tmpfs /dev/shm --remount-ro /dev --size 67108864 --perms 1777 --tmpfs /tmp \
     --size 67108864 --tmpfs /home/agent --chdir /home/agent --remount-ro / -- /bin/bash --norc --noprofile -c true";

fn plain() {
    let mut command = Command::new("bwrap");
    command.args(PROFILE.split_whitespace()).env_clear().env("PATH", "/usr/bin:/bin").stdin(Stdio::null());
    if rustix::process::geteuid().is_root() {
        command.uid(65534).gid(65534);
    }
    assert!(command.status().unwrap().success());
}

async fn ours(sandbox: &dyn Sandbox) {
    let mut session = sandbox.start(&Policy::default(), &Snapshot::new(), &BTreeMap::new()).await.unwrap();
    session.run("true", "", Duration::from_secs(10)).await.unwrap();
    session.finish().await.unwrap();
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let bubblewrap = open(Some(BackendKind::Bubblewrap)).unwrap().sandbox;
    let landlock = open(Some(BackendKind::Landlock)).unwrap().sandbox;
    let mut times = [const { Vec::new() }; 3];
    for round in 0..ROUNDS + 5 {
        let mut clock = Instant::now();
        let mut lap = |times: &mut Vec<f64>| {
            // The first rounds fill caches.
            if round >= 5 {
                times.push(clock.elapsed().as_secs_f64() * 1e3);
            }
            clock = Instant::now();
        };
        plain();
        lap(&mut times[0]);
        ours(bubblewrap.as_ref()).await;
        lap(&mut times[1]);
        ours(landlock.as_ref()).await;
        lap(&mut times[2]);
    }
    let base = median(&mut times[0]);
    let print = |figure: &str, value: f64| {
        let line = serde_json::json!({
            "bench": "sandbox_start", "figure": figure, "value": value, "unit": "ms", "against": "plain bwrap, same profile", "ratio": value / base,
        });
        println!("{line}");
    };
    print("plain bwrap, median", base);
    print("bubblewrap session, median", median(&mut times[1]));
    print("landlock session, median", median(&mut times[2]));
}
