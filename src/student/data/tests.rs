use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::base::SeedTree;
use crate::harness::HarnessId;
use crate::student::ChatCodec;
use crate::student::chat::tests::codec;
use crate::student::template::tests::case;
use crate::task::{JobType, TaskId};
use crate::trajectory::{ContentPart, Message, Role, ToolCall, ToolSchema};

fn task(number: u8) -> TaskId {
    TaskId::from_hash(&blake3::hash(&[number]))
}

fn episode(number: u8, messages: Vec<Message>, tools: Vec<ToolSchema>) -> EpisodeText {
    let harness = HarnessId::from_hash(&blake3::hash(b"harness"));
    let job_type = JobType::new("shell").unwrap();
    EpisodeText {
        task: task(number),
        job_type,
        skill: None,
        harness,
        messages,
        tools,
        contexts: Contexts::AppendOnly,
        failures: std::collections::BTreeMap::new(),
    }
}

fn whole(number: u8) -> EpisodeText {
    let (messages, tools) = case("whole");
    episode(number, messages, tools)
}

fn all_train() -> DataConfig {
    DataConfig { held_out: 0.0, ..DataConfig::default() }
}

fn built(codec: &ChatCodec, config: DataConfig, episodes: &[EpisodeText]) -> Dataset {
    DatasetBuilder::new(codec, config, &SeedTree::new(1)).unwrap().build(episodes).unwrap()
}

fn learnt(codec: &ChatCodec, sample: &Sample) -> Vec<String> {
    sample.trained.iter().map(|range| codec.tokenizer().decode(&sample.ids[range.clone()])).collect()
}

#[test]
fn an_episode_that_only_appends_is_one_sample_of_all_its_replies() {
    let codec = codec("nano");
    let dataset = built(&codec, all_train(), &[whole(1)]);
    let [sample] = dataset.samples() else { panic!("{:?}", dataset.report()) };
    // Written out by hand from the format of Qwen3's instruct models.
    let first = "I look at the file.\n<tool_call>\n{\"name\": \"bash\", \"arguments\": {\"command\": \"head -n 3 \\\"data/orders.csv\\\"\\n\", \
        \"timeout\": 2}}\n</tool_call><|im_end|>";
    let learnt = learnt(&codec, sample);
    assert_eq!((learnt[0].as_str(), learnt.len()), (first, 3));
    assert_eq!(learnt[2], "Done.\n<tool_call>\n{\"name\": \"finish\", \"arguments\": {}}\n</tool_call><|im_end|>");
    let job = dataset.report().total();
    assert_eq!((job.episodes, job.train, job.replies, job.held_out), (1, 1, 3, 0));
    assert_eq!((job.tokens, job.trained_tokens), (sample.ids.len(), sample.trained_tokens()));
}

/// Requests as they are sent under a harness that elides old observations.
#[test]
fn every_sample_shows_what_was_sent() {
    let codec = codec("nano");
    let (messages, tools) = case("whole");
    let mut genome = crate::harness::Genome::offering([crate::harness::ToolName::Bash, crate::harness::ToolName::Finish]);
    genome.observation.keep = 1;
    let steps: Vec<StepContext> = crate::episode::sent_steps(&genome, &messages)
        .into_iter()
        .map(|step| StepContext { reply: step.reply, sent: step.sent.map_err(|lost| lost.to_string()) })
        .collect();
    let elided = episode(1, messages.clone(), tools.clone()).with_steps(steps.clone());
    let dataset = built(&codec, all_train(), &[elided]);
    // The first two requests append; the third shows two of three observations no longer.
    let counts: Vec<usize> = dataset.samples().iter().map(|sample| sample.trained.len()).collect();
    assert_eq!(counts.iter().sum::<usize>(), 3);
    let found = |reply: usize| {
        let sent = steps.iter().find(|step| step.reply == reply).unwrap().sent.clone().unwrap();
        let prompt = codec.prompt(&sent, &tools).unwrap().ids;
        dataset.samples().iter().any(|sample| sample.trained.iter().any(|range| sample.ids[..range.start] == prompt))
    };
    assert_eq!(steps.iter().filter(|step| found(step.reply)).count(), 3);
    assert!(counts.len() > 1 && dataset.samples().iter().any(|sample| codec.tokenizer().decode(&sample.ids).contains("elided: ")));
    // The same requests, all of them appending, give what an episode without them gives.
    genome.observation.keep = 20;
    let steps = crate::episode::sent_steps(&genome, &messages)
        .into_iter()
        .map(|step| StepContext { reply: step.reply, sent: step.sent.map_err(|lost| lost.to_string()) })
        .collect();
    let kept = built(&codec, all_train(), &[episode(1, messages.clone(), tools.clone()).with_steps(steps)]);
    assert_eq!(kept.samples(), built(&codec, all_train(), &[episode(1, messages, tools)]).samples());
}

#[test]
fn a_call_that_came_to_nothing_stands_in_contexts_only() {
    let codec = codec("nano");
    let with = |failure: FailedReply, failed_calls: FailedCalls| {
        let mut episode = whole(1);
        episode.failures.insert(2, failure);
        built(&codec, DataConfig { failed_calls, ..all_train() }, &[episode])
    };
    let all = with(FailedReply::Refused, FailedCalls::Learn);
    assert_eq!(all.samples(), built(&codec, all_train(), &[whole(1)]).samples());
    for (failure, rule, left) in [
        (FailedReply::Refused, FailedCalls::SkipRefused, 2),
        (FailedReply::Failed, FailedCalls::SkipRefused, 3),
        (FailedReply::Failed, FailedCalls::Skip, 2),
    ] {
        let dataset = with(failure, rule);
        let [sample] = dataset.samples() else { panic!("{}", dataset.report()) };
        assert_eq!(sample.ids, all.samples()[0].ids, "the context is the same");
        assert_eq!(sample.trained, all.samples()[0].trained[3 - left..], "{failure:?} {rule:?}");
        assert_eq!(dataset.report().total().dropped.get(&DropReason::FailedCall).copied().unwrap_or(0), 3 - left);
    }
}

#[test]
fn midtraining_learns_every_token() {
    let codec = codec("nano");
    let dataset = built(&codec, DataConfig { learns: Learns::Everything, ..all_train() }, &[whole(1)]);
    let [sample] = dataset.samples() else { panic!("{}", dataset.report()) };
    assert_eq!(sample.trained_tokens(), sample.ids.len());
    assert_eq!(sample.ids, built(&codec, all_train(), &[whole(1)]).samples()[0].ids);
}

#[test]
fn shuffled_instructions_are_those_of_other_tasks() {
    let said = |episode: &EpisodeText| episode.messages[1].joined_text();
    let make = |number: u8| {
        let mut messages = long(3);
        messages[1] = Message::text(Role::User, format!("task {}", number % 5));
        let steps = vec![StepContext { reply: 4, sent: Ok(messages[..4].to_vec()) }];
        episode(number % 5, messages, Vec::new()).with_steps(steps)
    };
    let own: Vec<EpisodeText> = (0..10).map(make).collect();
    let mut shuffled = own.clone();
    shuffle_instructions(&mut shuffled, &SeedTree::new(3));
    for (before, after) in own.iter().zip(&shuffled) {
        assert_ne!(said(before), said(after));
        let Contexts::Steps(steps) = &after.contexts else { panic!() };
        assert_eq!(steps[0].sent.as_ref().unwrap()[1], after.messages[1], "the request says the same as the transcript");
        assert_eq!((&before.messages[2..], before.task), (&after.messages[2..], after.task));
    }
    // Every instruction is still there, as often as before, and episodes of one task share theirs.
    let all = |episodes: &[EpisodeText]| -> BTreeSet<String> { episodes.iter().map(said).collect() };
    assert_eq!(all(&own), all(&shuffled));
    assert!((0..5).all(|index| said(&shuffled[index]) == said(&shuffled[index + 5])));
    // The order of the episodes changes nothing.
    let mut reversed: Vec<EpisodeText> = own.iter().rev().cloned().collect();
    shuffle_instructions(&mut reversed, &SeedTree::new(3));
    reversed.reverse();
    assert_eq!(reversed, shuffled);
    // A task that is alone has nobody to exchange with.
    let mut alone = vec![make(1)];
    shuffle_instructions(&mut alone, &SeedTree::new(3));
    assert_eq!(alone, [make(1)]);
}

#[test]
fn lost_contexts_are_counted_and_not_learnt() {
    let codec = codec("nano");
    let (messages, tools) = case("whole");
    let steps =
        vec![StepContext { reply: 2, sent: Ok(messages[..2].to_vec()) }, StepContext { reply: 4, sent: Err("a summary".to_owned()) }];
    let dataset = built(&codec, all_train(), &[episode(1, messages, tools).with_steps(steps)]);
    assert_eq!(dataset.samples().len(), 1);
    assert_eq!(dataset.report().total().dropped[&DropReason::ContextLost], 1);
    let report = dataset.report().to_string();
    assert!(report.contains("1 replies dropped: what the model was sent is not known, for example: a summary"), "{report}");
}

/// A conversation of one system message, one task and `exchanges` exchanges of equal length.
fn long(exchanges: usize) -> Vec<Message> {
    let mut messages = vec![Message::text(Role::System, "s"), Message::text(Role::User, "u")];
    for index in 0..exchanges {
        messages.push(Message::text(Role::Assistant, format!("a{index}")));
        messages.push(Message::text(Role::User, format!("o{index}")));
    }
    messages.pop();
    messages
}

#[test]
fn what_is_too_long_is_dropped_or_cut_between_messages() {
    let codec = codec("nano");
    let messages = long(6);
    let full = codec.replies(&messages, &[]).unwrap();
    // Room for the first three replies.
    let max_length = full.replies[2].end + 1;
    let dropping = built(&codec, DataConfig { max_length, ..all_train() }, &[episode(1, messages.clone(), Vec::new())]);
    let [sample] = dropping.samples() else { panic!("{}", dropping.report()) };
    assert_eq!((sample.ids.as_slice(), sample.trained.len()), (&full.ids[..full.replies[2].end], 3));
    assert_eq!(dropping.report().total().dropped[&DropReason::TooLong], 3);
    let config = DataConfig { max_length, overlong: Overlong::CutOldest, ..all_train() };
    let cutting = built(&codec, config, &[episode(1, messages.clone(), Vec::new())]);
    let texts: Vec<String> = cutting.samples().iter().map(|sample| codec.tokenizer().decode(&sample.ids)).collect();
    assert_eq!(texts.len(), 4);
    assert_eq!(cutting.report().total().truncated, 3);
    assert!(cutting.samples().iter().all(|sample| sample.ids.len() <= max_length));
    let last = texts.iter().find(|text| text.ends_with("a5<|im_end|>")).unwrap();
    let head = "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\nu<|im_end|>\n<|im_start|>assistant\na3<|im_end|>\n";
    assert!(last.starts_with(head), "whole exchanges are left out, the task stays: {last}");
    // A reply that does not fit with the task alone is dropped whatever the rule.
    let tight = DataConfig { max_length: full.replies[0].end - 1, overlong: Overlong::CutOldest, ..all_train() };
    let error = DatasetBuilder::new(&codec, tight, &SeedTree::new(1)).unwrap().build(&[episode(1, messages, Vec::new())]).unwrap_err();
    assert!(error.to_string().contains("6 replies dropped: longer than a sample may be"), "{error}");
}

#[test]
fn nothing_to_learn_is_an_error_that_says_why() {
    let codec = codec("nano");
    let builder = DatasetBuilder::new(&codec, all_train(), &SeedTree::new(1)).unwrap();
    assert!(matches!(builder.build(&[]), Err(DataError::NothingToTrain { .. })));
    let silent = episode(1, vec![Message::text(Role::User, "u")], Vec::new());
    let error = builder.build(&[silent]).unwrap_err().to_string();
    assert!(error.contains("no reply in the episode"), "{error}");
    let mut seen = long(2);
    seen[1].content.push(ContentPart::Image { blob: "00".to_owned(), media_type: "image/png".to_owned() });
    let error = builder.build(&[episode(1, seen, Vec::new())]).unwrap_err().to_string();
    assert!(error.contains("2 replies dropped: more pictures than the student takes, for example: 1 pictures"), "{error}");
    let smol = super::super::chat::tests::codec("smollm2");
    let builder = DatasetBuilder::new(&smol, all_train(), &SeedTree::new(1)).unwrap();
    let error = builder.build(&[whole(1)]).unwrap_err().to_string();
    assert!(error.contains("does not show tool calls"), "{error}");
    assert!(DatasetBuilder::new(&smol, DataConfig { held_out: 1.0, ..all_train() }, &SeedTree::new(1)).is_err());
}

#[test]
fn pictures_are_kept_with_their_samples_where_the_student_sees() {
    let codec = codec("vl");
    let (messages, tools) = case("pictures-ended");
    let config = DataConfig { pictures: Pictures::AtMost(3), ..all_train() };
    let (_, tool_list) = case("pictures");
    let dataset = built(&codec, config.clone(), &[episode(1, messages.clone(), tool_list)]);
    assert_eq!(dataset.samples()[0].pictures, ["00"; 3]);
    assert_eq!(dataset.report().pictures, 3);
    let fewer = DataConfig { pictures: Pictures::AtMost(2), ..config };
    assert!(DatasetBuilder::new(&codec, fewer, &SeedTree::new(1)).unwrap().build(&[episode(1, messages, tools)]).is_err());
}

#[test]
fn equal_samples_are_learnt_once_and_the_order_of_episodes_does_not_matter() {
    let codec = codec("nano");
    let episodes = [whole(1), episode(2, long(2), Vec::new()), whole(3), episode(4, long(3), Vec::new())];
    let forwards = built(&codec, all_train(), &episodes);
    let mut reversed = episodes.to_vec();
    reversed.reverse();
    let backwards = built(&codec, all_train(), &reversed);
    assert_eq!(forwards.samples(), backwards.samples());
    assert_eq!(forwards.samples().len(), 3);
    assert_eq!(forwards.report().total().dropped[&DropReason::Duplicate], 3);
}

#[test]
fn a_task_is_in_one_part_whatever_else_there_is() {
    let codec = codec("nano");
    let config = DataConfig { held_out: 0.25, ..DataConfig::default() };
    let builder = DatasetBuilder::new(&codec, config, &SeedTree::new(5)).unwrap();
    let held_out = (0..200).filter(|number| builder.part_of(task(*number)) == Part::HeldOut).count();
    // 50 expected, standard deviation 6.1; five of them.
    assert!((20..=80).contains(&held_out), "{held_out}");
    let episodes: Vec<EpisodeText> = (0..20).map(|number| episode(number, long(1 + usize::from(number)), Vec::new())).collect();
    let dataset = builder.build(&episodes).unwrap();
    assert!(dataset.samples().iter().all(|sample| sample.part == builder.part_of(sample.task)));
    assert_eq!(dataset.part(Part::Train).count() + dataset.part(Part::HeldOut).count(), 20);
}

#[test]
fn an_exported_line_gives_the_samples_of_its_trajectory() {
    use crate::trajectory::{Ending, Outcome, Trajectory, Usage};
    let (messages, tools) = case("whole");
    let trajectory = Trajectory {
        harness: HarnessId::from_hash(&blake3::hash(b"harness")),
        model: "m".to_owned(),
        task: task(1),
        seed: 1,
        tools,
        messages,
        usage: vec![Usage::default(); 3],
        outcome: Outcome::Scored { verdict: crate::task::Verdict { score: 1.0, items: Vec::new() }, ending: Ending::Finished },
    };
    let direct = EpisodeText::of(
        &trajectory,
        JobType::new("shell").unwrap(),
        crate::task::SkillName::new("sum").unwrap(),
        crate::harness::CallForm::Native,
    );
    let row = crate::export::Row {
        trajectory,
        job_type: JobType::new("shell").unwrap(),
        skill: crate::task::SkillName::new("sum").unwrap(),
        split: crate::task::Split::Search,
        path: Vec::new(),
        simulated: false,
        licence: None,
    };
    let (lines, _) = crate::export::openai_jsonl(&[row]).unwrap();
    let line = String::from_utf8(lines).unwrap();
    let mut read = episode_of_openai_line(line.trim_end(), 1).unwrap();
    // The export sorts the keys of arguments; all else is the same.
    let sorted = |arguments: &str| serde_json::from_str::<serde_json::Value>(arguments).unwrap().to_string();
    let mut expected = direct;
    for call in expected.messages.iter_mut().chain(&mut read.messages).flat_map(|message| &mut message.tool_calls) {
        call.arguments = sorted(&call.arguments);
    }
    assert_eq!(read, expected);
    let error = episode_of_openai_line("{\"messages\": []}", 7).unwrap_err().to_string();
    assert!(error.starts_with("line 7 is not of an openai-jsonl export: missing field"), "{error}");
}

#[test]
fn a_file_holds_the_whole_data_set_and_nothing_else_is_read() {
    let codec = codec("nano");
    let dataset = built(&codec, all_train(), &[whole(1), episode(2, long(4), Vec::new())]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("train.tokens");
    dataset.save(&path).unwrap();
    assert_eq!(Dataset::load(&path).unwrap(), dataset);
    let bytes = std::fs::read(&path).unwrap();
    dataset.save(&path).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
    dataset.check_tokenizer(codec.tokenizer()).unwrap();
    let other = crate::student::StudentTokenizer::train(["a b a b"], crate::student::VocabularySize::new(512).unwrap()).unwrap();
    assert!(matches!(dataset.check_tokenizer(&other), Err(DataError::OtherTokenizer { .. })));
    for damaged in [&bytes[..bytes.len() - 1], &bytes[..20], b"", b"not a data set at all"] {
        std::fs::write(&path, damaged).unwrap();
        assert!(matches!(Dataset::load(&path), Err(DataError::Format { .. })));
    }
    assert!(matches!(Dataset::load(&folder.path().join("none")), Err(DataError::Io { .. })));
}

fn sample(ids: &[u32], trained: &[std::ops::Range<usize>]) -> Sample {
    let EpisodeText { task, job_type, harness, .. } = whole(1);
    Sample { ids: ids.to_vec(), trained: trained.to_vec(), part: Part::Train, task, job_type, harness, pictures: Vec::new() }
}

#[test]
fn a_row_keeps_attention_loss_and_padding_apart() {
    // The padding token, 9, is also one that is learnt.
    let samples = [sample(&[1, 2, 9], std::slice::from_ref(&(1..3))), sample(&[4, 5, 6, 7], &[0..1, 3..4])];
    let row = PackedRow::new(&samples, 9, 9).unwrap();
    assert_eq!(row.ids, [1, 2, 9, 4, 5, 6, 7, 9, 9]);
    assert_eq!(row.documents, [0..3, 3..7]);
    assert_eq!(row.used, 7);
    assert_eq!(row.positions, [0, 1, 2, 0, 1, 2, 3, 0, 0]);
    // The first token of a sample is never learnt: it would be predicted from another sample.
    assert_eq!(row.weights, [0., 1., 1., 0., 0., 0., 1., 0., 0.]);
    assert_eq!(row.trained_tokens(), 3);
    let (targets, weights) = row.shifted();
    assert_eq!(targets, [2, 9, 4, 5, 6, 7, 9, 9, 9]);
    assert_eq!(weights, [1., 1., 0., 0., 0., 1., 0., 0., 0.]);
    assert!(matches!(PackedRow::new(&samples, 6, 9), Err(DataError::Row { tokens: 7, row: 6 })));
}

#[test]
fn packing_is_first_fit_decreasing() {
    // By hand: 5 opens a row, 4 the next, a 3 goes to the 5, the other to the 4, and 2 opens a third.
    let rows = pack(&[3, 5, 2, 4, 3], 8, &SeedTree::new(3)).unwrap();
    let lengths: BTreeSet<Vec<usize>> = rows.iter().map(|row| row.iter().map(|index| [3, 5, 2, 4, 3][*index]).collect()).collect();
    assert_eq!(lengths, BTreeSet::from([vec![5, 3], vec![4, 3], vec![2]]));
    assert_eq!(rows, pack(&[3, 5, 2, 4, 3], 8, &SeedTree::new(3)).unwrap());
    assert!(matches!(pack(&[9], 8, &SeedTree::new(3)), Err(DataError::Row { tokens: 9, row: 8 })));
    assert!(pack(&[], 8, &SeedTree::new(3)).unwrap().is_empty());
}

fn assert_each_once(groups: &[Vec<usize>], count: usize) -> Result<(), TestCaseError> {
    let mut all: Vec<usize> = groups.concat();
    all.sort_unstable();
    prop_assert_eq!(all, (0..count).collect::<Vec<_>>());
    Ok(())
}

proptest! {
    #[test]
    fn packing_loses_nothing_and_fills_rows(lengths in proptest::collection::vec(1_usize..=64, 0..80), seed: u64) {
        let rows = pack(&lengths, 64, &SeedTree::new(seed)).unwrap();
        assert_each_once(&rows, lengths.len())?;
        let used: Vec<usize> = rows.iter().map(|row| row.iter().map(|index| lengths[*index]).sum()).collect();
        prop_assert!(used.iter().all(|used| *used <= 64));
        // First fit never leaves two rows that would fit in one.
        let mut sorted = used;
        sorted.sort_unstable();
        prop_assert!(sorted.len() < 2 || sorted[0] + sorted[1] > 64);
    }

    #[test]
    fn batches_lose_nothing_and_keep_to_the_budget(lengths in proptest::collection::vec(1_usize..=300, 0..80), seed: u64) {
        let batches = bucketed(&lengths, 256, 16, &SeedTree::new(seed));
        assert_each_once(&batches, lengths.len())?;
        for batch in &batches {
            let longest = batch.iter().map(|index| lengths[*index]).max().unwrap();
            prop_assert!(batch.len() == 1 || longest * batch.len() <= 256);
        }
    }

    #[test]
    fn what_is_learnt_is_what_the_assistant_said(
        said in proptest::collection::vec(("(\\PC|\n|<\\|im_end\\|>){0,8}", "(\\PC|\n|<\\|im_end\\|>){0,8}", proptest::bool::ANY), 1..4),
        max_length in 40_usize..400,
    ) {
        let codec = codec("nano");
        let mut messages = Vec::new();
        for (asked, answered, calls) in said {
            let call = ToolCall { id: String::new(), name: "bash".to_owned(), arguments: "{\"a\":1}".to_owned() };
            messages.push(Message::text(Role::User, asked));
            messages.push(Message { tool_calls: if calls { vec![call] } else { Vec::new() }, ..Message::text(Role::Assistant, answered) });
        }
        let expected: BTreeSet<String> = messages.iter().filter(|message| message.role == Role::Assistant).map(|message| {
            let text = message.joined_text();
            let gap = if text.is_empty() { "" } else { "\n" };
            let call = format!("{gap}<tool_call>\n{{\"name\": \"bash\", \"arguments\": {{\"a\": 1}}}}\n</tool_call>");
            format!("{text}{}<|im_end|>", if message.tool_calls.is_empty() { "" } else { &call })
        }).collect();
        let replies = messages.len() / 2;
        for overlong in [Overlong::Drop, Overlong::CutOldest] {
            let config = DataConfig { max_length, overlong, ..all_train() };
            let builder = DatasetBuilder::new(&codec, config, &SeedTree::new(1)).unwrap();
            let report = match builder.build(&[episode(1, messages.clone(), Vec::new())]) {
                Ok(dataset) => {
                    for sample in dataset.samples() {
                        prop_assert!(sample.ids.len() <= max_length);
                        for text in learnt(&codec, sample) {
                            prop_assert!(expected.contains(&text), "{}", text);
                        }
                    }
                    dataset.report().clone()
                }
                Err(DataError::NothingToTrain { report }) => *report,
                Err(error) => panic!("{error}"),
            };
            let total = report.total();
            prop_assert_eq!(total.replies + total.dropped.values().sum::<usize>(), replies);
        }
    }
}

/// `HARNESS_EVO_EXPORT` names an openai-jsonl export of a run.
#[test]
fn an_export_of_a_run_becomes_a_data_set() {
    let Some(path) = std::env::var_os("HARNESS_EVO_EXPORT") else {
        eprintln!("skipped: HARNESS_EVO_EXPORT is not set");
        return;
    };
    let text = std::fs::read_to_string(path).unwrap();
    let episodes: Vec<EpisodeText> = text.lines().zip(1..).map(|(line, number)| episode_of_openai_line(line, number).unwrap()).collect();
    let texts = episodes.iter().flat_map(|episode| &episode.messages).flat_map(|message| {
        message.tool_calls.iter().map(|call| call.arguments.clone()).chain([message.joined_text()]).collect::<Vec<_>>()
    });
    let texts: Vec<String> = texts.collect();
    let began = std::time::Instant::now();
    let tokenizer =
        crate::student::StudentTokenizer::train(texts.iter().map(String::as_str), crate::student::VocabularySize::default()).unwrap();
    let trained = began.elapsed();
    let codec = ChatCodec::new(tokenizer, crate::student::ChatTemplate::nano().unwrap()).unwrap();
    let began = std::time::Instant::now();
    let dataset = built(&codec, DataConfig::default(), &episodes);
    let tokens = codec.tokenizer().vocabulary_size();
    eprintln!("{tokens} tokens trained in {trained:?}, data set in {:?}\n{}", began.elapsed(), dataset.report());
    let total = dataset.report().total();
    let replies: usize = episodes.iter().flat_map(|episode| &episode.messages).filter(|message| message.role == Role::Assistant).count();
    assert_eq!(total.replies + total.dropped.values().sum::<usize>(), replies);
    let lengths: Vec<usize> = dataset.samples().iter().map(|sample| sample.ids.len()).collect();
    let rows = pack(&lengths, 4096, &SeedTree::new(1)).unwrap();
    let filled = 100 * lengths.iter().sum::<usize>() / (4096 * rows.len());
    eprintln!("{} samples in {} rows of 4096, {filled} % full", lengths.len(), rows.len());
}
