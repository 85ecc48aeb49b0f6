//! Episodes to samples.

use std::collections::HashSet;
use std::ops::Range;

use super::arguments::spaced;
use super::dataset::Dataset;
use super::error::DataError;
use super::input::{EpisodeText, FailedReply, StepContext};
use super::report::{DatasetReport, DropReason, JobReport};
use super::sample::{Part, Sample};
use crate::base::SeedTree;
use crate::student::{ChatCodec, CodecError, EncodedChat};
use crate::trajectory::{ContentPart, Message, Role, ToolSchema};

/// What happens to a reply whose context is too long.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Overlong {
    /// It is not learnt.
    #[default]
    Drop,
    /// The oldest exchanges before it are left out, whole ones, until it fits; its context is then not the one of its use.
    CutOldest,
}

/// How many pictures an episode may have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Pictures {
    /// The student reads text only.
    #[default]
    None,
    /// Up to this many.
    AtMost(usize),
}

/// What of a sample is learnt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Learns {
    /// The assistant's replies: fine-tuning.
    #[default]
    Replies,
    /// Every token, instructions and observations too: midtraining.
    Everything,
}

/// What is learnt of replies whose call came to nothing. They stand in the contexts of later ones whatever is chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FailedCalls {
    /// All of them.
    Learn,
    /// Those that the tool took and that failed then: a test that fails is often what was to be seen.
    #[default]
    SkipRefused,
    /// None.
    Skip,
}

impl FailedCalls {
    fn skips(self, failure: FailedReply) -> bool {
        match self {
            Self::Learn => false,
            Self::SkipRefused => failure == FailedReply::Refused,
            Self::Skip => true,
        }
    }
}

/// How samples are made.
#[derive(Debug, Clone, PartialEq)]
pub struct DataConfig {
    /// Tokens a sample may have.
    pub max_length: usize,
    /// What happens to longer ones.
    pub overlong: Overlong,
    /// Pictures of an episode.
    pub pictures: Pictures,
    /// Share of the tasks that are held out, 0 to less than 1.
    pub held_out: f64,
    /// What of a sample is learnt.
    pub learns: Learns,
    /// What is learnt of calls that came to nothing.
    pub failed_calls: FailedCalls,
}

impl Default for DataConfig {
    fn default() -> Self {
        Self {
            max_length: 4096,
            overlong: Overlong::Drop,
            pictures: Pictures::None,
            held_out: 0.1,
            learns: Learns::default(),
            failed_calls: FailedCalls::default(),
        }
    }
}

/// Makes samples of episodes.
pub struct DatasetBuilder<'c> {
    codec: &'c ChatCodec,
    config: DataConfig,
    seeds: SeedTree,
}

/// Replies in a row whose requests only append.
struct Run<'e> {
    /// The last request.
    context: &'e [Message],
    /// The replies that are learnt, by their place among the messages; the last answers `context`.
    replies: Vec<usize>,
}

/// What one episode gave.
struct Gathered<'e> {
    episode: &'e EpisodeText,
    part: Part,
    samples: Vec<Sample>,
    report: JobReport,
    examples: Vec<(DropReason, String)>,
}

impl<'c> DatasetBuilder<'c> {
    /// With `seeds`, the tasks that are held out are drawn.
    ///
    /// # Errors
    /// When the settings make no sense.
    pub fn new(codec: &'c ChatCodec, config: DataConfig, seeds: &SeedTree) -> Result<Self, DataError> {
        if !(0.0..1.0).contains(&config.held_out) {
            return Err(DataError::Config(format!("held_out is {}; it is a share of the tasks, 0 to less than 1", config.held_out)));
        }
        if config.max_length < 2 {
            return Err(DataError::Config(format!("max_length is {}; a sample has at least 2 tokens", config.max_length)));
        }
        Ok(Self { codec, config, seeds: seeds.child("held-out") })
    }

    /// The part of the data that a task belongs to, whatever other tasks there are.
    #[must_use]
    pub fn part_of(&self, task: crate::task::TaskId) -> Part {
        if self.seeds.child(&task.to_string()).fraction() < self.config.held_out { Part::HeldOut } else { Part::Train }
    }

    /// The samples of `episodes`, in an order that does not depend on theirs.
    ///
    /// # Errors
    /// When nothing is left to learn.
    pub fn build(&self, episodes: &[EpisodeText]) -> Result<Dataset, DataError> {
        let mut report = DatasetReport { max_length: self.config.max_length, ..DatasetReport::default() };
        let mut all = Vec::new();
        for episode in episodes {
            report.pictures += pictures(&episode.messages).len();
            all.push(self.gather(episode));
        }
        let key = |gathered: &Gathered<'_>| {
            let first = gathered.samples.first().map(|sample| *sample.content_hash().as_bytes());
            (gathered.episode.job_type.clone(), gathered.episode.task, gathered.episode.harness, first)
        };
        all.sort_by_cached_key(key);
        let mut seen = HashSet::new();
        let mut samples = Vec::new();
        for gathered in all {
            let mut job = gathered.report;
            for sample in gathered.samples {
                if !seen.insert(sample.content_hash()) {
                    *job.dropped.entry(DropReason::Duplicate).or_default() += sample.trained.len();
                    continue;
                }
                match sample.part {
                    Part::Train => job.train += 1,
                    Part::HeldOut => job.held_out += 1,
                }
                job.tokens += sample.ids.len();
                job.trained_tokens += sample.trained_tokens();
                job.replies += sample.trained.len();
                samples.push(sample);
            }
            for (reason, text) in gathered.examples {
                report.examples.entry(reason).or_insert(text);
            }
            report.job_types.entry(gathered.episode.job_type.to_string()).or_default().add(&job);
        }
        if !samples.iter().any(|sample| sample.part == Part::Train && sample.trained_tokens() > 0) {
            return Err(DataError::NothingToTrain { report: Box::new(report) });
        }
        Ok(Dataset::new(self.codec, samples, report))
    }

    fn gather<'e>(&self, episode: &'e EpisodeText) -> Gathered<'e> {
        let report = JobReport { episodes: 1, ..JobReport::default() };
        let mut gathered = Gathered { episode, part: self.part_of(episode.task), samples: Vec::new(), report, examples: Vec::new() };
        let mut steps = episode.steps();
        let most = match self.config.pictures {
            Pictures::None => 0,
            Pictures::AtMost(most) => most,
        };
        let shown = pictures(&episode.messages).len();
        if shown > most {
            gathered.drop(DropReason::Pictures, steps.len().max(1), format!("{shown} pictures, the student takes {most}"));
            return gathered;
        }
        let fits = |step: &StepContext| episode.messages.get(step.reply).is_some_and(|message| message.role == Role::Assistant);
        steps.retain(fits);
        if steps.is_empty() {
            gathered.drop(DropReason::NoReply, 1, String::new());
        }
        let messages = written(&episode.messages);
        let mut known = Vec::new();
        for step in steps {
            match step.sent {
                Ok(sent) => known.push((step.reply, written(&sent))),
                Err(reason) => gathered.drop(DropReason::ContextLost, 1, reason),
            }
        }
        for run in runs(&known, &messages) {
            self.run(&run, &messages, &known, &mut gathered);
        }
        gathered
    }

    /// One sample for all replies of a run if it fits, else the longest that fits, and the replies behind it one by one.
    fn run(&self, run: &Run<'_>, messages: &[Message], known: &[(usize, Vec<Message>)], gathered: &mut Gathered<'_>) {
        let mut single = run.replies.as_slice();
        let mut all = run.context.to_vec();
        if let Some(last) = run.replies.last() {
            all.push(messages[*last].clone());
        }
        if run.replies.len() > 1
            && let Ok(chat) = self.codec.replies(&all, &gathered.episode.tools)
        {
            // Replies before the run's own stand in its context and were learnt there.
            let own = chat.replies.len().saturating_sub(run.replies.len());
            let fitting = chat.replies[own..].iter().take_while(|reply| reply.end <= self.config.max_length).count();
            if fitting > 0 {
                let replies = &chat.replies[own..own + fitting];
                let end = replies.last().map_or(0, |reply| reply.end);
                let learnt = run.replies.iter().zip(replies).filter(|(place, _)| !self.skips(**place, gathered));
                let learnt: Vec<_> = learnt.map(|(_, tokens)| tokens.clone()).collect();
                gathered.skipped(fitting - learnt.len());
                self.push(chat.ids[..end].to_vec(), learnt, shown_until(&all, own + fitting), gathered);
                single = &run.replies[fitting..];
            }
            // Each of the others has at least the tokens before it.
            if self.config.overlong == Overlong::Drop {
                gathered.too_long(single.len(), self.config.max_length);
                return;
            }
        }
        for reply in single {
            if self.skips(*reply, gathered) {
                gathered.skipped(1);
            } else if let Some((_, context)) = known.iter().find(|(place, _)| place == reply) {
                self.exchange(context, &messages[*reply], gathered);
            }
        }
    }

    fn skips(&self, reply: usize, gathered: &Gathered<'_>) -> bool {
        gathered.episode.failures.get(&reply).is_some_and(|failure| self.config.failed_calls.skips(*failure))
    }

    fn push(&self, ids: Vec<u32>, replies: Vec<Range<usize>>, pictures: Vec<String>, gathered: &mut Gathered<'_>) {
        let trained = match self.config.learns {
            Learns::Replies => replies,
            Learns::Everything => std::iter::once(0..ids.len()).collect(),
        };
        if !trained.is_empty() {
            gathered.push(ids, trained, pictures);
        }
    }

    fn exchange(&self, context: &[Message], reply: &Message, gathered: &mut Gathered<'_>) {
        let tools = &gathered.episode.tools;
        match self.fitting(context, tools, reply) {
            Ok(Some((chat, cut))) => {
                gathered.report.truncated += usize::from(cut.len() < context.len());
                self.push(chat.ids, chat.replies, pictures(&cut), gathered);
            }
            Ok(None) => gathered.too_long(1, self.config.max_length),
            Err(error) => gathered.drop(DropReason::NotEncoded, 1, error.to_string()),
        }
    }

    /// The exchange with as much of its context as fits; `None` when it does not fit.
    fn fitting(
        &self,
        context: &[Message],
        tools: &[ToolSchema],
        reply: &Message,
    ) -> Result<Option<(EncodedChat, Vec<Message>)>, CodecError> {
        let whole = self.codec.exchange(context, tools, reply)?;
        if whole.ids.len() <= self.config.max_length {
            return Ok(Some((whole, context.to_vec())));
        }
        if self.config.overlong == Overlong::Drop {
            return Ok(None);
        }
        // The fewest exchanges whose absence makes it fit, by bisection: more of them never make it longer.
        let starts: Vec<usize> =
            context.iter().enumerate().filter(|(_, message)| message.role == Role::Assistant).map(|(at, _)| at).collect();
        let Some(&first) = starts.first() else { return Ok(None) };
        let (mut low, mut high, mut best) = (1, starts.len(), None);
        while low <= high {
            let count = usize::midpoint(low, high);
            let rest = starts.get(count).copied().unwrap_or(context.len());
            let cut = [&context[..first], &context[rest..]].concat();
            let chat = self.codec.exchange(&cut, tools, reply)?;
            if chat.ids.len() <= self.config.max_length {
                best = Some((chat, cut));
                high = count - 1;
            } else {
                low = count + 1;
            }
        }
        Ok(best)
    }
}

impl Gathered<'_> {
    fn push(&mut self, ids: Vec<u32>, trained: Vec<Range<usize>>, pictures: Vec<String>) {
        let EpisodeText { task, job_type, harness, .. } = self.episode;
        self.samples.push(Sample { ids, trained, part: self.part, task: *task, job_type: job_type.clone(), harness: *harness, pictures });
    }

    fn skipped(&mut self, replies: usize) {
        if replies > 0 {
            self.drop(DropReason::FailedCall, replies, String::new());
        }
    }

    fn too_long(&mut self, replies: usize, most: usize) {
        if replies > 0 {
            self.drop(DropReason::TooLong, replies, format!("a sample may have {most} tokens"));
        }
    }

    fn drop(&mut self, reason: DropReason, replies: usize, text: String) {
        *self.report.dropped.entry(reason).or_default() += replies;
        if !text.is_empty() {
            self.examples.push((reason, text));
        }
    }
}

/// Replies grouped so that each request of a group is the one before, its reply, and what came after.
fn runs<'k>(known: &'k [(usize, Vec<Message>)], messages: &[Message]) -> Vec<Run<'k>> {
    let mut runs: Vec<Run<'k>> = Vec::new();
    for (reply, context) in known {
        if let Some(run) = runs.last_mut()
            && let Some(last) = run.replies.last()
            && let Some((before, after)) = context.split_at_checked(run.context.len())
            && before == run.context
            && after.first() == Some(&messages[*last])
            && !after[1..].iter().any(|message| message.role == Role::Assistant)
        {
            run.context = context;
            run.replies.push(*reply);
        } else {
            runs.push(Run { context, replies: vec![*reply] });
        }
    }
    runs
}

/// Messages as the student is to write them.
fn written(messages: &[Message]) -> Vec<Message> {
    let mut messages = messages.to_vec();
    for call in messages.iter_mut().flat_map(|message| &mut message.tool_calls) {
        call.arguments = spaced(&call.arguments);
    }
    messages
}

/// Blobs of the pictures, in order.
fn pictures(messages: &[Message]) -> Vec<String> {
    let blob = |part: &ContentPart| match part {
        ContentPart::Image { blob, .. } => Some(blob.clone()),
        ContentPart::Text { .. } => None,
    };
    messages.iter().flat_map(|message| &message.content).filter_map(blob).collect()
}

/// The pictures up to the reply numbered `count`, from 1.
fn shown_until(messages: &[Message], count: usize) -> Vec<String> {
    let replies = messages.iter().enumerate().filter(|(_, message)| message.role == Role::Assistant);
    let end = replies.map(|(index, _)| index + 1).nth(count.saturating_sub(1)).unwrap_or(messages.len());
    pictures(&messages[..end])
}
