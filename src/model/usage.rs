//! Tokens where no endpoint counts them, and what tokens cost.

use super::ChatRequest;
use crate::trajectory::{ContentPart, Message, Usage};

/// Bytes of text taken as one token. Byte-pair vocabularies average 3.5 to 4.5 bytes a token on English and code.
pub const BYTES_PER_TOKEN: u64 = 4;

/// Tokens taken for one picture.
const TOKENS_PER_IMAGE: u64 = 1000;

/// Tokens taken for the frame of one message (role, delimiters).
const TOKENS_PER_MESSAGE: u64 = 4;

/// Estimated tokens of `text`: its bytes by [`BYTES_PER_TOKEN`], rounded up.
#[must_use]
pub fn estimate_tokens(text: &str) -> u64 {
    (text.len() as u64).div_ceil(BYTES_PER_TOKEN)
}

/// Estimated tokens of one message: text, reasoning, calls, 1000 for each picture and 4 for its frame.
#[must_use]
pub fn estimate_message(message: &Message) -> u64 {
    let content: u64 = message
        .content
        .iter()
        .map(|part| match part {
            ContentPart::Text { text } => estimate_tokens(text),
            ContentPart::Image { .. } => TOKENS_PER_IMAGE,
        })
        .sum();
    let calls: u64 = message.tool_calls.iter().map(|call| estimate_tokens(&call.name) + estimate_tokens(&call.arguments)).sum();
    let reasoning = message.reasoning.as_deref().map_or(0, estimate_tokens);
    TOKENS_PER_MESSAGE + content + calls + reasoning
}

/// Estimated tokens of a whole request, tool schemas included.
#[must_use]
pub fn estimate_request(request: &ChatRequest) -> u64 {
    let messages: u64 = request.messages.iter().map(estimate_message).sum();
    let tools: u64 = request
        .tools
        .iter()
        .map(|tool| estimate_tokens(&tool.name) + estimate_tokens(&tool.description) + estimate_tokens(&tool.parameters.to_string()))
        .sum();
    messages + tools
}

/// Bytes of text and calls that one token may stand for: the longest tokens of common vocabularies are runs of 128 spaces, but no
/// text consists of them alone.
const MOST_BYTES_PER_TOKEN: u64 = 64;

/// Bytes that any reply may have, for servers that round their limit up.
const FREE_BYTES: u64 = 64 * 1024;

/// Whether `message` is longer than `request` allows a reply to be: then the server ignores the limit, and what it sent must not enter
/// the next prompt. Reasoning is not counted, since some endpoints do not count it either.
pub(super) fn outgrows(message: &Message, request: &ChatRequest) -> bool {
    let text: usize = message
        .content
        .iter()
        .map(|part| match part {
            ContentPart::Text { text } => text.len(),
            ContentPart::Image { .. } => 0,
        })
        .sum();
    let calls: usize = message.tool_calls.iter().map(|call| call.id.len() + call.name.len() + call.arguments.len()).sum();
    let most = u64::from(request.sampling.max_output_tokens) * MOST_BYTES_PER_TOKEN + FREE_BYTES;
    (text + calls) as u64 > most
}

/// The price of `usage` in millionths of a US dollar, rounded up. `price` is per million prompt, cached prompt and
/// completion tokens, as [`super::LanguageModel::price`] gives it.
#[must_use]
pub fn micro_usd(price: [u64; 3], usage: Usage) -> u64 {
    let [prompt, cached, completion] = price.map(u128::from);
    let from_cache = usage.cached_tokens.min(usage.prompt_tokens);
    let total = u128::from(usage.prompt_tokens - from_cache) * prompt
        + u128::from(from_cache) * cached
        + u128::from(usage.completion_tokens) * completion;
    u64::try_from(total.div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trajectory::Role;

    #[test]
    fn a_started_token_counts() {
        assert_eq!(["", "a", "abcd", "abcde", "ää"].map(estimate_tokens), [0, 1, 1, 2, 1]);
        assert_eq!(estimate_message(&Message::text(Role::User, "abcde")), 6);
    }

    #[test]
    fn cached_tokens_have_their_own_price_and_the_sum_is_rounded_up() {
        let usage = Usage { prompt_tokens: 1000, completion_tokens: 10, cached_tokens: 400 };
        // 600 * 3 + 400 * 0.3 + 10 * 15 = 1800 + 120 + 150 micro-dollars.
        assert_eq!(micro_usd([3_000_000, 300_000, 15_000_000], usage), 2070);
        // 1 token at 0.15 micro-dollars.
        assert_eq!(micro_usd([150_000, 0, 0], Usage { prompt_tokens: 1, ..Usage::default() }), 1);
        assert_eq!(micro_usd([u64::MAX; 3], Usage { prompt_tokens: u64::MAX, ..Usage::default() }), u64::MAX);
    }
}
