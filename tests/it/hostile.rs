//! Hostile programs on both backends.
//!
//! A program prints `BREACH` when its attack works. Where it is harmless, the same program first runs without any sandbox and must
//! print it there: an attack that works nowhere would prove nothing.

use std::collections::BTreeMap;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use harness_evo::base::{Entry, Snapshot};
use harness_evo::sandbox::{BackendKind, CommandEnd, CommandOutput, Policy, Sandbox, SandboxError, Session, open};

const LONG: Duration = Duration::from_secs(60);
const BOTH: &[BackendKind] = &[BackendKind::Bubblewrap, BackendKind::Landlock];

/// Whether the attack is run without a sandbox first.
#[derive(Clone, Copy, PartialEq)]
enum Control {
    /// It must work there.
    MustBreach,
    /// As root it must.
    MustBreachAsRoot,
    /// It would harm the machine, or hangs on it.
    None,
}

/// An attack: its name, how it is controlled, the backends that contain it, and the program.
type Attack = (&'static str, Control, &'static [BackendKind], &'static str);

/// `{...}` are replaced by what stands on this machine for the test, see [`Host`].
const ATTACKS: &[Attack] = &[
    ("escape by path", Control::MustBreach, BOTH, "cd /; up=$(printf '../%.0s' {1..20}); grep -q TOPSECRET $up{SECRET} && echo BREACH"),
    ("symbolic link", Control::MustBreach, BOTH, "ln -s {SECRET} link; grep -q TOPSECRET link && echo BREACH"),
    ("hard link", Control::None, BOTH, "ln {SECRET} hard && grep -q TOPSECRET hard && echo BREACH"),
    ("secret readable by all", Control::MustBreach, BOTH, "grep -q TOPSECRET {OPEN_SECRET} && echo BREACH"),
    (
        "roots in /proc",
        Control::MustBreach,
        BOTH,
        "cat /proc/1/root{SECRET} /proc/{VICTIM}/root{SECRET} /proc/$PPID/root{SECRET} | grep -q TOPSECRET && echo BREACH",
    ),
    ("open files in /proc", Control::MustBreach, BOTH, "cat /proc/{VICTIM}/fd/0 | grep -q TOPSECRET && echo BREACH"),
    (
        "environment in /proc",
        Control::MustBreach,
        BOTH,
        "cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep -qE 'TOPSECRET|^CARGO|^PATH=.*cargo' && echo BREACH",
    ),
    ("environment", Control::None, BOTH, "env | grep -qE 'CARGO|TOPSECRET' && echo BREACH"),
    ("gaining rights", Control::MustBreach, BOTH, "grep -q 'NoNewPrivs:.*0' /proc/self/status && echo BREACH"),
    ("capabilities", Control::MustBreachAsRoot, BOTH, "grep -q 'CapEff:.*[1-9a-f]' /proc/self/status && echo BREACH"),
    ("becoming root", Control::MustBreachAsRoot, BOTH, "python3 -c 'import os\nos.setuid(0)\nprint(\"BREACH\")'"),
    (
        "set-user-id programs",
        Control::None,
        BOTH,
        "for p in su mount passwd newgrp; do timeout 2 $p -c id </dev/null 2>&1 | grep -q uid=0 && echo BREACH; done",
    ),
    ("password file", Control::MustBreachAsRoot, BOTH, "cat /etc/shadow && echo BREACH"),
    ("TCP to the host", Control::MustBreach, BOTH, "exec 3<>/dev/tcp/127.0.0.1/{TCP} && echo BREACH"),
    (
        "UDP to the host",
        Control::MustBreach,
        BOTH,
        "python3 -c 'import socket\ns=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); s.settimeout(1); s.sendto(b\"x\",(\"127.0.0.1\",{UDP})); s.recv(9); print(\"BREACH\")'",
    ),
    (
        "abstract socket of the host",
        Control::MustBreach,
        BOTH,
        "python3 -c 'import socket\ns=socket.socket(socket.AF_UNIX); s.connect(\"\\0{ABSTRACT}\"); print(\"BREACH\")'",
    ),
    (
        "socket file of the host",
        Control::MustBreach,
        BOTH,
        "python3 -c 'import socket\ns=socket.socket(socket.AF_UNIX); s.connect(\"{SOCKET}\"); print(\"BREACH\")'",
    ),
    (
        "sockets of other families",
        Control::None,
        BOTH,
        "python3 -c 'import socket\nfor f in (17, 40, 38):\n try: socket.socket(f, socket.SOCK_RAW if f == 17 else socket.SOCK_SEQPACKET if f == 38 else socket.SOCK_STREAM); print(\"BREACH\", f)\n except OSError: pass'",
    ),
    ("signal to the host", Control::MustBreach, BOTH, "kill -0 {VICTIM} && echo BREACH"),
    ("signal to everything", Control::None, BOTH, "kill -TERM -1; kill -TERM {VICTIM} && echo BREACH"),
    ("tracing", Control::MustBreach, BOTH, "python3 -c 'import ctypes\nif ctypes.CDLL(None).ptrace(0,0,0,0)==0: print(\"BREACH\")'"),
    (
        "calls under the numbers of x32",
        if cfg!(target_arch = "x86_64") { Control::MustBreach } else { Control::None },
        BOTH,
        "[ $(uname -m) != x86_64 ] || python3 -c 'import ctypes\nc=ctypes.CDLL(None, use_errno=True); c.syscall(0x40000000+39)\nif ctypes.get_errno()!=1: print(\"BREACH\")'",
    ),
    (
        "memory of the shell",
        Control::MustBreach,
        BOTH,
        "python3 -c 'import os\nopen(f\"/proc/{os.getppid()}/mem\",\"r+b\"); print(\"BREACH\")'; true",
    ),
    (
        "open files of the shell",
        Control::MustBreach,
        BOTH,
        "python3 -c 'import os\nos.listdir(f\"/proc/{os.getppid()}/fd\"); print(\"BREACH\")'; true",
    ),
    (
        "inherited open files",
        Control::None,
        BOTH,
        "python3 -c 'import os\nfor fd in range(3,300):\n try: os.fstat(fd); print(\"BREACH\", fd, os.readlink(f\"/proc/self/fd/{fd}\"))\n except OSError: pass'",
    ),
    ("terminal of the host", Control::None, BOTH, "(exec 3<>/dev/tty) && echo BREACH"),
    (
        "writing outside",
        Control::None,
        BOTH,
        "for d in / /usr /usr/bin /etc /var /home /root /opt /dev /run /proc/sys/kernel; do (echo x > $d/hostile) && echo BREACH $d; done",
    ),
    (
        "helper scripts",
        Control::None,
        BOTH,
        "h=$(command -v helper); d=${h%/*}; echo x >> $h && echo BREACH 1; rm -f $h && echo BREACH 2; mv $h $h.x && echo BREACH 3; echo x > $d/ls && echo BREACH 4; chmod 777 $d; echo x > $d/ls && echo BREACH 5; helper | grep -qx helped || echo BREACH 6",
    ),
    (
        "own limits",
        Control::None,
        BOTH,
        "ulimit -n 100000 && echo BREACH; ulimit -u 100000 && echo BREACH; ulimit -f unlimited && echo BREACH; ulimit -c unlimited && echo BREACH; true",
    ),
    (
        "mounting",
        Control::None,
        BOTH,
        "mkdir m; mount -t tmpfs x m && echo BREACH; python3 -c 'import ctypes\nif ctypes.CDLL(None).mount(b\"x\",b\"m\",b\"tmpfs\",0,0)==0: print(\"BREACH\")'",
    ),
    (
        "user namespaces",
        Control::None,
        BOTH,
        "unshare -Ur true && echo BREACH; unshare -m true && echo BREACH; python3 -c 'import ctypes\nif ctypes.CDLL(None).unshare(0x10000000)==0: print(\"BREACH\")'",
    ),
    ("changing the root", Control::MustBreachAsRoot, BOTH, "python3 -c 'import os\nos.chroot(\"/usr\"); print(\"BREACH\")'"),
    ("device nodes", Control::MustBreachAsRoot, BOTH, "mknod node c 1 1 && echo BREACH"),
    (
        "kernel rings and keys",
        Control::MustBreach,
        BOTH,
        "python3 -c 'import ctypes\nc=ctypes.CDLL(None)\nr=[c.syscall(425,0,0), c.syscall(250,0,-1,0), c.syscall(319,b\"m\",0)]\nimport errno\nif any(x>=0 for x in r): print(\"BREACH\", r)'",
    ),
    (
        "memory nobody owns",
        Control::MustBreach,
        BOTH,
        "python3 -c 'import ctypes\nc=ctypes.CDLL(None); i=c.shmget(0,4096,0o1600)\nif i>=0: print(\"BREACH\"); c.shmctl(i,0,0)'",
    ),
    ("one huge allocation", Control::MustBreach, BOTH, "python3 -c 'x=bytearray(2<<30); print(\"BREACH\")'"),
    ("memory in /dev/shm", Control::None, BOTH, "head -c 100M /dev/zero > /dev/shm/hog && echo BREACH"),
    ("one big file", Control::MustBreach, BOTH, "truncate -s 1G big; (( $(stat -c %s big) > 100000000 )) && { rm big; echo BREACH; }"),
    (
        "many processes",
        Control::MustBreach,
        BOTH,
        "python3 -c 'import os,time,signal\nn=0\nkids=[]\ntry:\n for i in range(200):\n  p=os.fork()\n  if p==0: time.sleep(30); os._exit(0)\n  kids.append(p)\nexcept OSError: pass\ntime.sleep(1)\nfor p in kids: os.kill(p,9)\nif len(kids)>190: print(\"BREACH\")'",
    ),
    // What the weaker backend does not cover.
    (
        "arguments of host processes",
        Control::MustBreach,
        &[BackendKind::Bubblewrap],
        "grep -q {ARGUMENT} /proc/{VICTIM}/cmdline && echo BREACH",
    ),
    ("existence of host files", Control::MustBreach, &[BackendKind::Bubblewrap], "test -e {OPEN_SECRET} && echo BREACH"),
];

/// What the attacks aim at.
struct Host {
    folder: tempfile::TempDir,
    victim: Child,
    argument: String,
    tcp: TcpListener,
    udp: u16,
    abstract_name: String,
    _sockets: [UnixListener; 2],
}

impl Host {
    fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("aimed-at-").tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        for (name, mode) in [("secret", 0o600), ("open-secret", 0o644)] {
            std::fs::write(folder.path().join(name), "TOPSECRET\n").unwrap();
            std::fs::set_permissions(folder.path().join(name), std::fs::Permissions::from_mode(mode)).unwrap();
        }
        let argument = format!("86400.{}", std::process::id());
        let input = std::fs::File::open(folder.path().join("secret")).unwrap();
        let victim = Command::new("sleep").arg(&argument).env("PLANTED", "TOPSECRET").stdin(input).spawn().unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = udp.local_addr().unwrap().port();
        std::thread::spawn(move || {
            let mut byte = [0; 1];
            while let Ok((_, from)) = udp.recv_from(&mut byte) {
                let _ = udp.send_to(b"reply", from);
            }
        });
        let abstract_name = format!("aimed-at-{}", std::process::id());
        use std::os::linux::net::SocketAddrExt;
        let address = std::os::unix::net::SocketAddr::from_abstract_name(&abstract_name).unwrap();
        let socket = UnixListener::bind(folder.path().join("socket")).unwrap();
        std::fs::set_permissions(folder.path().join("socket"), std::fs::Permissions::from_mode(0o777)).unwrap();
        let sockets = [UnixListener::bind_addr(&address).unwrap(), socket];
        Self { folder, victim, argument, tcp: TcpListener::bind("127.0.0.1:0").unwrap(), udp: port, abstract_name, _sockets: sockets }
    }

    fn fill(&self, program: &str) -> String {
        let path = |name: &str| self.folder.path().join(name).display().to_string();
        program
            .replace("{SECRET}", &path("secret"))
            .replace("{OPEN_SECRET}", &path("open-secret"))
            .replace("{SOCKET}", &path("socket"))
            .replace("{VICTIM}", &self.victim.id().to_string())
            .replace("{ARGUMENT}", &self.argument)
            .replace("{TCP}", &self.tcp.local_addr().unwrap().port().to_string())
            .replace("{UDP}", &self.udp.to_string())
            .replace("{ABSTRACT}", &self.abstract_name)
    }

    fn victim_lives(&mut self) -> bool {
        self.victim.try_wait().unwrap().is_none()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
    }
}

fn policy() -> Policy {
    Policy { processes: 64, memory_mib: 256, disk_mib: 16, output_bytes: 64 * 1024, seconds: 300 }
}

fn sandbox(kind: BackendKind) -> std::sync::Arc<dyn Sandbox> {
    open(Some(kind)).expect("both backends work on the machine that tests").sandbox
}

async fn session(kind: BackendKind) -> Box<dyn Session> {
    let helpers = BTreeMap::from([("helper".to_owned(), "#!/bin/sh\necho helped\n".to_owned())]);
    sandbox(kind).start(&policy(), &Snapshot::new(), &helpers).await.unwrap()
}

async fn run(session: &mut dyn Session, command: &str) -> CommandOutput {
    session.run(command, "", LONG).await.unwrap()
}

/// Processes of this machine whose command line holds `mark`.
fn processes_with(mark: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok())
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .map(|bytes| String::from_utf8_lossy(&bytes).replace('\0', " "))
        .filter(|line| line.contains(mark))
        .collect()
}

#[tokio::test]
async fn attacks_are_contained_and_work_without_a_sandbox() {
    let mut host = Host::new();
    let root = rustix::process::geteuid().is_root();
    let mut failures = Vec::new();
    for (name, control, covered, program) in ATTACKS {
        let program = host.fill(program);
        if *control == Control::MustBreach || (root && *control == Control::MustBreachAsRoot) {
            let place = tempfile::tempdir().unwrap();
            let free = Command::new("bash").args(["-c", &program]).current_dir(place.path()).output().unwrap();
            if !String::from_utf8_lossy(&free.stdout).contains("BREACH") {
                failures.push(format!("{name}: does not work even without a sandbox: {free:?}"));
            }
        }
        for kind in BOTH {
            let mut session = session(*kind).await;
            let output = run(session.as_mut(), &program).await;
            if output.text.contains("BREACH") == covered.contains(kind) {
                failures.push(format!("{name} on {kind:?}: {output:?}"));
            }
            session.finish().await.unwrap();
        }
        if !host.victim_lives() {
            failures.push(format!("{name}: ended a process of the host"));
            host = Host::new();
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

#[tokio::test]
async fn nothing_outlives_a_session() {
    for kind in BOTH {
        for daemon in [
            "nohup sleep MARK >/dev/null 2>&1 &",
            "setsid sleep MARK &",
            "(setsid bash -c 'sleep MARK & disown' &)",
            "python3 -c 'import os,time\nif os.fork()==0:\n os.setsid()\n if os.fork()==0: os.execvp(\"sleep\",[\"sleep\",\"MARK\"])\n os._exit(0)'",
            "python3 -c 'import signal,os\nfor s in range(1,65):\n try: signal.signal(s, signal.SIG_IGN)\n except OSError: pass\nif os.fork()==0: os.execvp(\"sleep\",[\"sleep\",\"MARK\"])'",
            "b() { b | b & }; b; sleep MARK & sleep 1",
            "while :; do (sleep MARK &); done & sleep 0.5",
        ] {
            // Killed by finish, by the end of the session's value, and after the shell's own end.
            for way in ["finish", "drop", "exit"] {
                let mark = format!("90{}.{}", ["finish", "drop", "exit"].iter().position(|name| *name == way).unwrap(), std::process::id());
                let mut session = session(*kind).await;
                let ended = run(session.as_mut(), &daemon.replace("MARK", &mark)).await;
                // A bomb may be ended before anybody sees it.
                if way != "exit" && !daemon.starts_with("b()") && !matches!(ended.end, CommandEnd::Killed(_)) {
                    let seen = Instant::now();
                    while processes_with(&mark).is_empty() {
                        assert!(seen.elapsed() < LONG, "{daemon} never ran on {kind:?}: {ended:?}");
                    }
                }
                match way {
                    "finish" => drop(session.finish().await.unwrap()),
                    "drop" => drop(session),
                    _ => {
                        run(session.as_mut(), "exit 0").await;
                    }
                }
                assert_eq!(processes_with(&mark), Vec::<String>::new(), "{daemon} on {kind:?} by {way}");
            }
        }
    }
}

#[tokio::test]
async fn memory_hogs_end_by_name_and_the_session_goes_on() {
    let hogs = [
        "python3 -c 'import time\nx=bytearray(b\"x\")*(400<<20); time.sleep(20); print(\"BREACH\")'",
        "for i in 1 2 3 4; do python3 -c 'import time\nx=b\"x\"*(100<<20); time.sleep(20); print(\"BREACH\")' & done; wait",
        "python3 -c 'import mmap,time\nm=mmap.mmap(-1,600<<20)\nfor i in range(0,600<<20,4096): m[i]=1\ntime.sleep(20); print(\"BREACH\")'",
    ];
    for kind in BOTH {
        let mut session = session(*kind).await;
        run(session.as_mut(), "echo kept > file").await;
        for hog in hogs {
            let output = run(session.as_mut(), hog).await;
            assert_eq!(output.end, CommandEnd::Killed("memory"), "{hog} on {kind:?}: {output:?}");
            assert_eq!(run(session.as_mut(), "cat file").await.text, "kept\n");
        }
    }
}

#[tokio::test]
async fn a_full_disk_is_the_session_s_own() {
    for kind in BOTH {
        for hog in [
            "for i in $(seq 40); do head -c 5M /dev/zero > f$i || exit 1; done; sleep 2; echo BREACH",
            "python3 -c 'import os,time\nfs=[]\nfor i in range(40):\n f=open(\"f\",\"wb\"); os.unlink(\"f\"); f.write(b\"x\"*(5<<20)); f.flush(); fs.append(f)\ntime.sleep(2); print(\"BREACH\")'",
        ] {
            let mut session = session(*kind).await;
            let output = run(session.as_mut(), hog).await;
            assert!(!output.text.contains("BREACH"), "{kind:?}: {output:?}");
            let full = output.text.contains("No space left") || output.end == CommandEnd::Killed("disk");
            assert!(full, "{kind:?}: {output:?}");
        }
    }
}

#[tokio::test]
async fn ten_gigabytes_of_output_leave_head_tail_and_a_count() {
    const ALL: u64 = 10_000_000_000;
    for kind in BOTH {
        let mut session = session(*kind).await;
        let output = session.run(&format!("echo first; head -c {ALL} /dev/zero; echo; echo last"), "", 10 * LONG).await.unwrap();
        assert_eq!(output.end, CommandEnd::Exited(0));
        assert!(output.text.starts_with("first\n") && output.text.ends_with("\nlast\n"));
        // "first\n", the zeros and "\nlast\n" came; 65,536 of these bytes stayed.
        assert_eq!(output.omitted_bytes, 6 + ALL + 6 - 65_536);
        assert!(output.text.len() < 65_536 + 100);
    }
}

#[tokio::test]
async fn the_shell_s_report_cannot_be_forged_or_silenced_for_ever() {
    let forge = "python3 -c 'import os,sys\np=os.getppid()\nfor fd in range(256):\n for where in (f\"/proc/{p}/fd/{fd}\", f\"/proc/self/fd/{fd}\"):\n  \
                 try:\n   f=os.open(where, os.O_WRONLY|os.O_NONBLOCK)\n   os.write(f, b\"\".join(b\"%d 0\\n\" % s for s in range(99)))\n  except OSError: pass\nsys.exit(9)'";
    for kind in BOTH {
        let mut session = session(*kind).await;
        assert_eq!(run(session.as_mut(), forge).await.end, CommandEnd::Exited(9), "{kind:?}");
        // These break the shell itself. Each ends, and the next command has a working one.
        for breaking in [
            "for fd in {3..255}; do eval \"exec $fd>&-\"; done",
            "exec 0<&- 1>&- 2>&-",
            "bash -c 'kill -9 $PPID'",
            "kill -9 -1",
            "trap '' INT; while :; do :; done",
            "exec sleep 100",
        ] {
            let broken = session.run(breaking, "", Duration::from_secs(1)).await;
            assert!(broken.is_ok(), "{breaking} on {kind:?}: {broken:?}");
            let next = session.run("echo works", "", LONG).await.unwrap();
            assert_eq!((next.text.as_str(), next.end), ("works\n", CommandEnd::Exited(0)), "after {breaking} on {kind:?}");
        }
    }
}

#[tokio::test]
async fn what_comes_out_is_never_followed_and_always_bounded() {
    for kind in BOTH {
        let mut session = session(*kind).await;
        run(
            session.as_mut(),
            "ln -s /etc/passwd link; ln -s / folder; mkfifo answer.txt; ln -s loop loop; mkdir locked; echo x > locked/in; chmod 000 locked; \
             echo y > hidden; chmod 000 hidden; printf 'a\\377' > \"$(printf 'na\\377me')\"; truncate -s 15M a1; truncate -s 15M a2; mkdir -p 1/2/3",
        )
        .await;
        let files = session.finish().await.unwrap();
        let get = |path: &str| files.get(path).unwrap_or_else(|| panic!("{path} is missing on {kind:?}"));
        assert_eq!(get("link"), &Entry::Link { target: "/etc/passwd".to_owned() });
        assert_eq!(get("folder"), &Entry::Link { target: "/".to_owned() });
        assert_eq!(get("loop"), &Entry::Link { target: "loop".to_owned() });
        assert_eq!(get("answer.txt"), &Entry::Other);
        assert_eq!(get("locked/in"), &Entry::File { text: "x\n".to_owned(), mode: 0o644 });
        assert_eq!(get("locked"), &Entry::Folder { mode: 0 });
        assert_eq!(get("hidden"), &Entry::File { text: "y\n".to_owned(), mode: 0 });
        assert_eq!(get("na\u{fffd}me"), &Entry::Bytes { bytes: vec![b'a', 0xff], mode: 0o644 });
        // 15 MiB of the 16 that may come out are taken by the first.
        assert!(matches!(get("a1"), Entry::File { text, .. } if text.len() == 15 << 20));
        assert_eq!(get("a2"), &Entry::Other);
        assert_eq!(files.iter().filter(|(path, _)| path.starts_with("folder/")).count(), 0);
    }
}

#[tokio::test]
async fn too_many_files_and_too_deep_folders_end_in_bounds() {
    for kind in BOTH {
        let mut many = session(*kind).await;
        run(many.as_mut(), "python3 -c 'for i in range(30000): open(f\"f{i}\",\"w\")'").await;
        assert!(matches!(many.finish().await, Err(SandboxError::Overfull { entries: 20_000 })), "{kind:?}");

        let mut deep = session(*kind).await;
        let output = run(deep.as_mut(), "python3 -c 'import os\nfor i in range(500): os.mkdir(\"d\"); os.chdir(\"d\")'").await;
        let files = deep.finish().await.unwrap();
        assert_eq!(files.get(&vec!["d"; 65].join("/")), Some(&Entry::Other), "{kind:?}: {output:?}");
        assert_eq!(files.len(), 65);
    }
}

#[tokio::test]
async fn the_session_s_time_ends_everything() {
    for kind in BOTH {
        let policy = Policy { seconds: 1, ..policy() };
        let mut session = sandbox(*kind).start(&policy, &Snapshot::new(), &BTreeMap::new()).await.unwrap();
        let output = run(session.as_mut(), "echo kept > file; sleep 60").await;
        assert_eq!(output.end, CommandEnd::Killed("time"), "{kind:?}");
        assert!(matches!(session.run("true", "", LONG).await, Err(SandboxError::Ended(_))));
        assert!(session.finish().await.unwrap().get("file").is_some());
    }
}

#[tokio::test]
async fn live_sessions_cannot_reach_each_other() {
    for kind in BOTH {
        let sandbox = sandbox(*kind);
        let mut one = sandbox.start(&policy(), &Snapshot::new(), &BTreeMap::new()).await.unwrap();
        let mut other = sandbox.start(&policy(), &Snapshot::new(), &BTreeMap::new()).await.unwrap();
        let home = one.workspace().to_owned();
        let mark = format!("91234.{}", std::process::id());
        run(one.as_mut(), &format!("echo mine > private; chmod 777 . private; sleep {mark} &")).await;
        let attack = format!(
            "cat {home}/private; echo x > {home}/private; pkill -f '^sleep {mark}'; for p in /proc/[0-9]*; do grep -sqa 'sleep.{mark}' $p/cmdline && kill -9 ${{p#/proc/}}; done"
        );
        let output = run(other.as_mut(), &attack).await;
        assert!(!output.text.contains("mine"), "{kind:?}: {output:?}");
        assert_eq!(processes_with(&format!("sleep {mark}")).len(), 1, "{kind:?}: {output:?}");
        assert_eq!(one.finish().await.unwrap().get("private"), Some(&Entry::File { text: "mine\n".to_owned(), mode: 0o777 }));
    }
}
