//! `@dwmkerr/mock-llm` as a child process, the rules by which it plays an agent, and a proxy that breaks its answers.
//!
//! mock-llm answers any status with any valid JSON, chosen by what the request holds or by the number of the request. It cannot
//! stall, break off, or send broken JSON: the proxy does that.

use std::net::{SocketAddr, TcpListener as StdListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// The environment variable that names mock-llm's `dist/main.js`.
pub(crate) const SCRIPT: &str = "HARNESS_EVO_MOCK_LLM";

/// A running mock-llm; it ends when this is dropped.
pub(crate) struct MockLlm {
    child: Child,
    address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl MockLlm {
    /// Starts it with `rules`, or says that the test is skipped.
    pub(crate) fn start(rules: &[Value]) -> Option<Self> {
        let Some(script) = std::env::var_os(SCRIPT) else {
            eprintln!("skipped: {SCRIPT} is not set (npm install @dwmkerr/mock-llm, then name its dist/main.js)");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("mock-llm.yaml");
        // JSON is YAML.
        std::fs::write(&config, json!({ "rules": rules }).to_string()).unwrap();
        let address = StdListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let child = spawn(Path::new(&script), &config, address);
        let mock = Self { child, address, _folder: folder };
        let patience = Instant::now() + Duration::from_secs(30);
        while std::net::TcpStream::connect(address).is_err() {
            assert!(Instant::now() < patience, "mock-llm did not start at {address}");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(mock)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }
}

impl Drop for MockLlm {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(script: &Path, config: &Path, address: SocketAddr) -> Child {
    Command::new("node")
        .arg(script)
        .arg("--config")
        .arg(config)
        .env("HOST", address.ip().to_string())
        .env("PORT", address.port().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// A rule for chat completions; later rules win. `when` is `JMESPath` over `body`.
pub(crate) fn rule(when: &str, status: u16, content: &Value) -> Value {
    json!({"path": "^/v1/chat/completions$", "match": when, "response": {"status": status, "content": content.to_string()}})
}

/// A reply with `message`.
pub(crate) fn reply(message: &Value, finish: &str) -> Value {
    json!({
        "id": "chatcmpl-1", "object": "chat.completion", "model": "scripted",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 120, "completion_tokens": 15, "total_tokens": 135},
    })
}

/// Rules by which it plays an agent with native or text calls: the first request is answered by a `bash` call of `command`, a tool's
/// result by a `finish` call, anything else by `done`. The list of models holds `scripted`.
pub(crate) fn agent_rules(command: &str) -> Vec<Value> {
    let call = |id: &str, name: &str, arguments: &Value| {
        let function = json!({"name": name, "arguments": arguments.to_string()});
        reply(
            &json!({"role": "assistant", "content": null, "tool_calls": [{"id": id, "type": "function", "function": function}]}),
            "tool_calls",
        )
    };
    let text = |call: &Value| reply(&json!({"role": "assistant", "content": format!("<tool_call>\n{call}\n</tool_call>")}), "stop");
    let bash = json!({ "command": command });
    let list = json!({"object": "list", "data": [{"id": "scripted", "object": "model"}]});
    vec![
        json!({"path": "^/v1/models$", "method": "GET", "response": {"status": 200, "content": list.to_string()}}),
        rule("@", 200, &reply(&json!({"role": "assistant", "content": "done"}), "stop")),
        rule("contains(body.messages[0].content, '<tool_call>')", 200, &text(&json!({"name": "bash", "arguments": bash}))),
        rule(
            "body.messages[-1].role == 'user' && contains(body.messages[-1].content, '<tool_response')",
            200,
            &text(&json!({"name": "finish", "arguments": {}})),
        ),
        rule("body.tools && body.messages[-1].role == 'user'", 200, &call("call_a", "bash", &bash)),
        rule("body.messages[-1].role == 'tool'", 200, &call("call_b", "finish", &json!({}))),
    ]
}

/// `rules` so that of the first `requests` requests, one in twenty is answered by 429 and one in twenty by 500; those after follow
/// `rules` alone.
pub(crate) fn with_refusals(rules: &[Value], requests: u64) -> Vec<Value> {
    let mut all = rules.to_vec();
    for number in 0..requests {
        let refusal = match number % 20 {
            3 => Some((429, json!({"error": {"message": "Rate limit reached", "type": "requests", "code": "rate_limit_exceeded"}}))),
            13 => Some((500, json!({"error": {"message": "The server had an error", "type": "server_error"}}))),
            _ => None,
        };
        // A number counts only when a rule that names it wins: each needs the whole script.
        let script = match refusal {
            Some((status, content)) => vec![rule("@", status, &content)],
            None => rules.iter().filter(|rule| rule["path"] != "^/v1/models$").cloned().collect(),
        };
        for mut rule in script {
            rule["sequence"] = json!(number);
            all.push(rule);
        }
    }
    all
}

/// What the proxy does to one answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Harm {
    None,
    /// Half of the answer, then the end.
    BreakOff,
    /// A whole answer whose JSON is cut in half.
    HalfJson,
    /// No answer, and the connection stays.
    Stall,
}

/// A proxy that stalls one answer in twenty, breaks off one in forty and cuts the JSON of one in forty in half. It ends when this is
/// dropped.
pub(crate) struct FaultProxy {
    address: SocketAddr,
    harmed: Arc<AtomicU64>,
    _tasks: JoinSet<()>,
}

impl FaultProxy {
    pub(crate) async fn start(upstream: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut tasks = JoinSet::new();
        let harmed = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&harmed);
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            for number in 0_u64.. {
                let Ok((client, _)) = listener.accept().await else { return };
                let harm = match number % 40 {
                    2 | 22 => Harm::Stall,
                    7 => Harm::BreakOff,
                    27 => Harm::HalfJson,
                    _ => Harm::None,
                };
                count.fetch_add(u64::from(harm != Harm::None), Ordering::Relaxed);
                connections.spawn(pass(client, upstream, harm));
                while connections.try_join_next().is_some() {}
            }
        });
        Self { address, harmed, _tasks: tasks }
    }

    /// Answers that were stalled, broken off or cut so far.
    pub(crate) fn harmed(&self) -> u64 {
        self.harmed.load(Ordering::Relaxed)
    }

    pub(crate) fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }
}

/// Passes one request and its answer. Errors end the connection, as they would on a real one.
async fn pass(mut client: TcpStream, upstream: SocketAddr, harm: Harm) {
    let Some(request) = read_message(&mut client).await else { return };
    if harm == Harm::Stall {
        // Until the client gives up.
        let _ = client.read(&mut [0; 1]).await;
        return;
    }
    let Ok(mut server) = TcpStream::connect(upstream).await else { return };
    if server.write_all(&request).await.is_err() {
        return;
    }
    let Some(answer) = read_message(&mut server).await else { return };
    let text = String::from_utf8_lossy(&answer).into_owned();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return };
    let kept: Vec<&str> = head
        .lines()
        .filter(|line| {
            let name = line.split(':').next().unwrap_or_default().to_ascii_lowercase();
            !matches!(name.as_str(), "connection" | "keep-alive" | "content-length")
        })
        .collect();
    let half: String = body.chars().take(body.chars().count() / 2).collect();
    let (length, body) = match harm {
        Harm::BreakOff => (body.len(), half.as_str()),
        Harm::HalfJson => (half.len(), half.as_str()),
        Harm::None | Harm::Stall => (body.len(), body),
    };
    let answer = format!("{}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}", kept.join("\r\n"));
    let _ = client.write_all(answer.as_bytes()).await;
    let _ = client.shutdown().await;
}

/// A head and as many bytes of body as it announces.
async fn read_message(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 8192];
    loop {
        let read = stream.read(&mut chunk).await.ok()?;
        if read == 0 {
            return None;
        }
        bytes.extend_from_slice(&chunk[..read]);
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok()).unwrap_or(0);
        if bytes.len() >= end + 4 + length {
            return Some(bytes);
        }
    }
}
