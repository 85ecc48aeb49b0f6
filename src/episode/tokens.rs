//! Tokens of an episode: estimated and reserved before a request is sent, counted when the reply is there.

use crate::model::{estimate_message, estimate_tokens};
use crate::trajectory::{Message, ToolSchema, Usage};

/// Estimated tokens of `messages`.
pub(super) fn estimate(messages: &[Message]) -> u64 {
    messages.iter().map(estimate_message).sum()
}

/// Estimated tokens of `tools` as an endpoint puts them into the prompt.
fn of_tools(tools: &[ToolSchema]) -> u64 {
    let of_tool = |tool: &ToolSchema| {
        estimate_tokens(&tool.name) + estimate_tokens(&tool.description) + estimate_tokens(&tool.parameters.to_string())
    };
    tools.iter().map(of_tool).sum()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trajectory::Role;

    #[test]
    fn a_request_must_fit_with_its_longest_reply() {
        // 40 bytes are 10 tokens, and 4 around them.
        let messages = [Message::text(Role::User, "x".repeat(40))];
        assert_eq!(estimate(&messages), 14);
        let mut meter = TokenMeter::new(100, &[]);
        assert!(meter.fits(&messages, 86));
        assert!(!meter.fits(&messages, 87));
        meter.count(&messages, Usage { prompt_tokens: 14, completion_tokens: 16, cached_tokens: 0 });
        assert!(meter.fits(&messages, 56));
        assert!(!meter.fits(&messages, 57));
        // An endpoint that counts twice as many: 28 + 2 more were spent, and the next request is believed to need 29.
        meter.count(&messages, Usage { prompt_tokens: 28, completion_tokens: 2, cached_tokens: 0 });
        assert!(meter.fits(&messages, 11));
        assert!(!meter.fits(&messages, 12));
    }
}
