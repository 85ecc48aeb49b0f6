//! Tokens of an episode: estimated and reserved before a request is sent, counted when the reply is there.

use crate::trajectory::{ContentPart, Message, ToolSchema, Usage};

/// Bytes per token. Byte-pair vocabularies give 3.5 to 4.5 for English and code.
const BYTES_PER_TOKEN: u64 = 4;
/// Tokens a chat template puts around each message.
const TOKENS_PER_MESSAGE: u64 = 4;
/// Tokens of one picture, as endpoints count a screen.
const TOKENS_PER_IMAGE: u64 = 1000;

/// Estimated tokens of `messages`.
pub(super) fn estimate(messages: &[Message]) -> u64 {
    messages.iter().map(of_message).sum()
}

/// Estimated tokens of `tools` as an endpoint puts them into the prompt.
fn of_tools(tools: &[ToolSchema]) -> u64 {
    let bytes: usize = tools.iter().map(|tool| tool.name.len() + tool.description.len() + tool.parameters.to_string().len()).sum();
    (bytes as u64).div_ceil(BYTES_PER_TOKEN)
}

fn of_message(message: &Message) -> u64 {
    let mut bytes = message.reasoning.as_ref().map_or(0, String::len);
    let mut images = 0;
    for part in &message.content {
        match part {
            ContentPart::Text { text } => bytes += text.len(),
            ContentPart::Image { .. } => images += 1,
        }
    }
    bytes += message.tool_calls.iter().map(|call| call.name.len() + call.arguments.len()).sum::<usize>();
    (bytes as u64).div_ceil(BYTES_PER_TOKEN) + TOKENS_PER_MESSAGE + images * TOKENS_PER_IMAGE
}

/// What may be spent and what was.
#[derive(Debug, Clone)]
pub(super) struct TokenMeter {
    limit: u64,
    tools: u64,
    spent: Usage,
    /// Prompt tokens of the last reply and what was estimated for them: the estimate learns the endpoint's tokenizer.
    measured: u64,
    estimated: u64,
}

impl TokenMeter {
    pub(super) fn new(limit: u64, tools: &[ToolSchema]) -> Self {
        Self { limit, tools: of_tools(tools), spent: Usage::default(), measured: 1, estimated: 1 }
    }

    /// Whether a request of these messages and a reply of at most `max_output` tokens fit what is left.
    pub(super) fn fits(&self, messages: &[Message], max_output: u32) -> bool {
        let bare = self.bare(messages);
        // An endpoint that counts more than we do is believed, one that counts less may only have cached or miscounted.
        let corrected = if self.measured > self.estimated {
            u64::try_from(u128::from(bare) * u128::from(self.measured) / u128::from(self.estimated))
                .map_or(u64::MAX, |tokens| tokens.saturating_add(1))
        } else {
            bare
        };
        self.spent.total().saturating_add(corrected).saturating_add(u64::from(max_output)) <= self.limit
    }

    /// Counts a reply to a request of these messages.
    pub(super) fn count(&mut self, messages: &[Message], usage: Usage) {
        self.spent = self.spent.plus(usage);
        self.measured = usage.prompt_tokens.max(1);
        self.estimated = self.bare(messages).max(1);
    }

    /// Everything that was spent.
    pub(super) const fn spent(&self) -> Usage {
        self.spent
    }

    fn bare(&self, messages: &[Message]) -> u64 {
        estimate(messages).saturating_add(self.tools)
    }
}

/// The price of `usage` in millionths of a dollar, rounded up. `price` is per million prompt, cached and completion tokens.
pub(super) fn micro_usd(usage: Usage, price: [u64; 3]) -> u64 {
    let cached = usage.cached_tokens.min(usage.prompt_tokens);
    let parts = [usage.prompt_tokens - cached, cached, usage.completion_tokens];
    let total: u128 = parts.iter().zip(price).map(|(tokens, price)| u128::from(*tokens) * u128::from(price)).sum();
    u64::try_from(total.div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trajectory::Role;

    fn usage(prompt_tokens: u64, completion_tokens: u64, cached_tokens: u64) -> Usage {
        Usage { prompt_tokens, completion_tokens, cached_tokens }
    }

    #[test]
    fn prices_are_rounded_up_and_cached_tokens_have_their_own() {
        // 3 dollars, 0.3 dollars and 15 dollars per million: 900 * 3 + 100 * 0.3 + 10 * 15 = 2880 millionths.
        assert_eq!(micro_usd(usage(1000, 10, 100), [3_000_000, 300_000, 15_000_000]), 2880);
        assert_eq!(micro_usd(usage(1, 0, 0), [1, 1, 1]), 1);
        assert_eq!(micro_usd(usage(0, 0, 0), [1, 1, 1]), 0);
        assert_eq!(micro_usd(usage(5, 0, 9), [1_000_000, 0, 0]), 0);
        assert_eq!(micro_usd(usage(u64::MAX / 4, 1, 0), [u64::MAX, 0, 0]), u64::MAX);
    }

    #[test]
    fn a_request_must_fit_with_its_longest_reply() {
        // 40 bytes are 10 tokens, and 4 around them.
        let messages = [Message::text(Role::User, "x".repeat(40))];
        assert_eq!(estimate(&messages), 14);
        let mut meter = TokenMeter::new(100, &[]);
        assert!(meter.fits(&messages, 86));
        assert!(!meter.fits(&messages, 87));
        meter.count(&messages, usage(14, 16, 0));
        assert!(meter.fits(&messages, 56));
        assert!(!meter.fits(&messages, 57));
        // An endpoint that counts twice as many: 28 + 2 more were spent, and the next request is believed to need 29.
        meter.count(&messages, usage(28, 2, 0));
        assert!(meter.fits(&messages, 11));
        assert!(!meter.fits(&messages, 12));
    }
}
