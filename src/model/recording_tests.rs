use super::*;
use crate::model::{SamplingParams, StopReason, ToolChoice};
use crate::trajectory::{Message, RequestTag, Role, Usage};

/// Replies with the number of the request it is.
struct Counting {
    id: ModelId,
    count: Mutex<u32>,
}

impl Counting {
    fn named(name: &str) -> Arc<Self> {
        Arc::new(Self { id: ModelId { name: name.to_owned(), fingerprint: name.to_owned() }, count: Mutex::new(0) })
    }
}

#[async_trait::async_trait]
impl LanguageModel for Counting {
    fn id(&self) -> &ModelId {
        &self.id
    }

    fn price(&self) -> [u64; 3] {
        [1, 2, 3]
    }

    async fn complete(&self, _request: &ChatRequest) -> Result<ChatReply, ModelError> {
        let mut count = self.count.lock().unwrap();
        *count += 1;
        Ok(ChatReply {
            message: Message::text(Role::Assistant, format!("reply {count}")),
            usage: Usage { prompt_tokens: 1, completion_tokens: 1, cached_tokens: 0 },
            stop: StopReason::Stop,
            logprobs: Vec::new(),
            prompt_token_ids: Vec::new(),
            completion_token_ids: Vec::new(),
        })
    }
}

fn request(text: &str, seed: u64) -> ChatRequest {
    ChatRequest {
        messages: vec![Message::text(Role::User, text)],
        tools: Vec::new(),
        tool_choice: ToolChoice::Auto,
        sampling: SamplingParams { temperature: 0.0, top_p: 1.0, max_output_tokens: 16, seed: None },
        tag: RequestTag { task: None, seed, step: 0 },
    }
}

async fn said(model: &dyn LanguageModel, text: &str, seed: u64) -> String {
    model.complete(&request(text, seed)).await.unwrap().message.joined_text()
}

#[tokio::test]
async fn every_asker_gets_its_own_replies_again_whatever_the_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("replies.jsonl");
    let recorder = Recorder::open(Counting::named("m"), &path).unwrap();
    assert_eq!(said(&recorder, "a", 1).await, "reply 1");
    assert_eq!(said(&recorder, "a", 2).await, "reply 2");
    assert_eq!(said(&recorder, "a", 1).await, "reply 3");
    assert_eq!(said(&recorder, "b", 1).await, "reply 4");

    let replayer = Replayer::open(&path).unwrap();
    assert_eq!(replayer.id(), recorder.id());
    assert_eq!(replayer.price(), [1, 2, 3]);
    assert_eq!(said(&replayer, "a", 2).await, "reply 2");
    assert_eq!(said(&replayer, "b", 1).await, "reply 4");
    assert_eq!(said(&replayer, "a", 1).await, "reply 1");
    assert_eq!(said(&replayer, "a", 1).await, "reply 3");
    // Asked once more than recorded, and by one who was not recorded.
    assert_eq!(said(&replayer, "a", 1).await, "reply 3");
    assert_eq!(said(&replayer, "a", 99).await, "reply 1");
}

#[tokio::test]
async fn a_request_that_was_not_recorded_is_a_permanent_error_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("replies.jsonl");
    let recorder = Recorder::open(Counting::named("m"), &path).unwrap();
    said(&recorder, "a", 1).await;
    let replayer = Replayer::open(&path).unwrap();
    let mut warmer = request("a", 1);
    warmer.sampling.temperature = 0.1;
    for missing in [request("never asked", 1), warmer] {
        let Err(ModelError::Permanent { message }) = replayer.complete(&missing).await else { panic!() };
        assert!(message.contains(&missing.messages[0].joined_text()) && message.contains("seed 1"), "{message}");
    }
}

#[tokio::test]
async fn a_torn_last_line_is_skipped_and_recording_goes_on_behind_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("replies.jsonl");
    said(&Recorder::open(Counting::named("m"), &path).unwrap(), "a", 1).await;
    let whole = std::fs::read(&path).unwrap();
    let mut torn = whole.clone();
    torn.extend_from_slice(&whole[whole.len() - 60..whole.len() - 1]);
    std::fs::write(&path, &torn).unwrap();
    assert_eq!(said(&Replayer::open(&path).unwrap(), "a", 1).await, "reply 1");

    let recorder = Recorder::open(Counting::named("m"), &path).unwrap();
    assert!(std::fs::read(&path).unwrap() == whole);
    said(&recorder, "a", 1).await;
    let text = std::fs::read_to_string(&path).unwrap();
    let last: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(last["ordinal"], 1);
}

#[tokio::test]
async fn a_file_that_is_no_recording_is_refused_with_the_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("replies.jsonl");
    said(&Recorder::open(Counting::named("m"), &path).unwrap(), "a", 1).await;
    let good = std::fs::read_to_string(&path).unwrap();

    let open = |text: &str| {
        std::fs::write(&path, text).unwrap();
        Replayer::open(&path).err().unwrap().to_string()
    };
    assert!(open("").contains("empty"));
    assert!(open("notes\n").contains("line 1"));
    assert!(open(&good.replacen("\"recording\":1", "\"recording\":2", 1)).contains("version 2"));
    assert!(open(&format!("{good}{{}}\n")).contains("line 3"));
}

#[test]
fn another_model_is_not_recorded_into_the_same_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("replies.jsonl");
    Recorder::open(Counting::named("m"), &path).unwrap();
    Recorder::open(Counting::named("m"), &path).unwrap();
    let error = Recorder::open(Counting::named("other"), &path).err().unwrap();
    assert!(matches!(error, RecordingError::OtherModel { .. }), "{error}");
}
