//! Start of a sandbox: ours (start, one `true`, finish) beside plain `bwrap` with the same profile running `bash -c true`, in turn.
//!
//! The profile (namespaces, mounts, system call filter, environment) is read off the command line of a live session, so that the two
//! cannot drift apart; what the session adds is its persistent shell, a guard, a command and the way of the files in and out.
//!
//! One JSON line per figure; `ratio` is ours over the other. Target: at most 1.3.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a bench prints its figures and has nobody to hand an error to")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use harness_evo::base::Snapshot;
use harness_evo::sandbox::{BackendKind, Policy, Sandbox, open};

const ROUNDS: usize = 200;
const PAUSE: Duration = Duration::from_millis(10);

/// What a session passes to `bwrap`.
struct Profile {
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    filter: PathBuf,
}

impl Profile {
    /// That of the `bwrap` that is a child of this process.
    fn of_live_session() -> Self {
        let me = std::process::id();
        let children = fs::read_dir(format!("/proc/{me}/task")).unwrap().map(|task| {
            let task = task.unwrap().path();
            fs::read_to_string(task.join("children")).unwrap()
        });
        let children: String = children.collect();
        let pid = children.split_whitespace().next().unwrap().to_owned();
        let strings = |file: &str| -> Vec<String> {
            let text = fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap();
            text.split_terminator('\0').map(str::to_owned).collect()
        };
        let arguments: Vec<String> = strings("cmdline").into_iter().skip(1).take_while(|argument| argument != "--").collect();
        let place = |wanted: &str| arguments.iter().position(|argument| argument == wanted).unwrap();
        // The filter lies beside the folder that stands for `/etc`.
        let filter = Path::new(&arguments[place("/etc") - 1]).with_file_name("filter");
        let environment =
            strings("environ").iter().map(|line| line.split_once('=').unwrap()).map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        Self { arguments, environment, filter }
    }

    fn run(&self) {
        let filter = File::open(&self.filter).unwrap();
        rustix::io::fcntl_setfd(&filter, rustix::io::FdFlags::empty()).unwrap();
        let mut arguments = self.arguments.clone();
        let number = arguments.iter().position(|argument| argument == "--seccomp").unwrap() + 1;
        arguments[number] = filter.as_raw_fd().to_string();
        let mut command = Command::new("bwrap");
        command.args(arguments).args(["--", "/bin/bash", "--norc", "--noprofile", "-c", "true"]);
        command.env_clear().envs(self.environment.iter().map(|(key, value)| (key, value))).stdin(Stdio::null());
        if rustix::process::geteuid().is_root() {
            command.uid(65534).gid(65534);
        }
        assert!(command.status().unwrap().success());
    }
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
    // Alive until the end: its folders are part of the profile.
    let live = bubblewrap.start(&Policy::default(), &Snapshot::new(), &BTreeMap::new()).await.unwrap();
    let plain = Profile::of_live_session();
    let mut times = [const { Vec::new() }; 3];
    for round in 0..ROUNDS + 5 {
        for (turn, times) in times.iter_mut().enumerate() {
            // The kernel takes namespaces and mounts down after the end: what one leaves behind must not be the next one's time.
            tokio::time::sleep(PAUSE).await;
            let clock = Instant::now();
            match turn {
                0 => plain.run(),
                1 => ours(bubblewrap.as_ref()).await,
                _ => ours(landlock.as_ref()).await,
            }
            // The first rounds fill caches.
            if round >= 5 {
                times.push(clock.elapsed().as_secs_f64() * 1e3);
            }
        }
    }
    drop(live);
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
