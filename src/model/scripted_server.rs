//! An HTTP server for tests that answers with exactly the bytes it is told to, however wrong they are.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// What the server does with a connection after it has read the request.
#[derive(Clone)]
pub(super) enum Act {
    /// Sends the bytes and closes.
    Send(Vec<u8>),
    /// Sends the bytes and then nothing more, without closing.
    SendThenStall(Vec<u8>),
    /// Sends the head, then the same kilobyte for ever.
    Flood(Vec<u8>),
    /// Sends the head, then one byte every 20 ms for ever.
    Trickle(Vec<u8>),
}

/// Answers the nth connection by the nth act, and those after the last as the last.
pub(super) struct ScriptedServer {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
    // Dropping it ends the server.
    _tasks: JoinSet<()>,
}

impl ScriptedServer {
    pub(super) async fn start(acts: Vec<Act>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = JoinSet::new();
        let seen = Arc::clone(&requests);
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            for index in 0.. {
                let (stream, _) = listener.accept().await.unwrap();
                let act = acts[acts.len().min(index + 1) - 1].clone();
                let seen = Arc::clone(&seen);
                connections.spawn(async move { serve(stream, act, &seen).await });
            }
        });
        Self { address, requests, _tasks: tasks }
    }

    pub(super) fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The requests so far, heads and bodies.
    pub(super) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

async fn serve(mut stream: TcpStream, act: Act, seen: &Mutex<Vec<String>>) {
    let request = read_request(&mut stream).await;
    seen.lock().unwrap().push(request);
    // The client hangs up on floods and stalls: write errors are the end, not a failure.
    match act {
        Act::Send(bytes) => {
            let _ = stream.write_all(&bytes).await;
            let _ = stream.shutdown().await;
        }
        Act::SendThenStall(bytes) => {
            let _ = stream.write_all(&bytes).await;
            std::future::pending::<()>().await;
        }
        Act::Flood(head) => {
            let _ = stream.write_all(&head).await;
            while stream.write_all(&[b' '; 1024]).await.is_ok() {}
        }
        Act::Trickle(head) => {
            let _ = stream.write_all(&head).await;
            while stream.write_all(b" ").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

async fn read_request(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let read = stream.read(&mut chunk).await.unwrap_or(0);
        bytes.extend_from_slice(&chunk[..read]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if read == 0 || complete(&text) {
            return text;
        }
    }
}

fn complete(request: &str) -> bool {
    let Some((head, body)) = request.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ").map(str::to_owned));
    body.len() >= length.and_then(|length| length.parse().ok()).unwrap_or(0)
}

/// A whole answer.
pub(super) fn answer(status: &str, headers: &str, body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n{headers}\r\n{body}",
        body.len()
    )
    .into_bytes()
}
