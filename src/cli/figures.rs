//! Figures as people and scripts read them.

use serde_json::{Value, json};

use crate::base::{Amount, Timestamp};

/// `0.5` as `50.0 %`.
pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// An interval of shares in percent.
pub(super) fn range(low: f64, high: f64) -> String {
    format!("{:.1} to {:.1}", low * 100.0, high * 100.0)
}

/// Millionths of a US dollar as dollars.
pub(super) fn usd(micro_usd: f64) -> String {
    if micro_usd > 0.0 { format!("{:.4}", micro_usd / 1e6) } else { "0".to_owned() }
}

/// Millionths of a US dollar as dollars, exactly enough for scripts.
#[expect(clippy::cast_precision_loss, reason = "money below 2^53 micro-dollars")]
pub(super) fn dollars(micro_usd: u64) -> f64 {
    micro_usd as f64 / 1e6
}

/// A number that may be no limit.
pub(super) fn limit(number: u64) -> String {
    if number == u64::MAX { "no limit".to_owned() } else { number.to_string() }
}

/// `episodes`, `tokens`, `usd`; `null` for what has no limit.
pub(super) fn amount_json(amount: Amount) -> Value {
    let bounded = |number: u64| (number != u64::MAX).then_some(number);
    json!({
        "episodes": bounded(amount.episodes),
        "tokens": bounded(amount.tokens),
        "usd": bounded(amount.micro_usd).map(dollars),
    })
}

/// `12 episodes, 3400 tokens, 0.01 usd`.
pub(super) fn amount(amount: Amount) -> String {
    let money = if amount.micro_usd == u64::MAX { "no limit on".to_owned() } else { format!("{:.2}", dollars(amount.micro_usd)) };
    format!("{} episodes, {} tokens, {money} usd", limit(amount.episodes), limit(amount.tokens))
}

/// A time in UTC, to the second.
pub(super) fn time(at: Timestamp) -> String {
    jiff::Timestamp::from_millisecond(at.0).map_or_else(|_| at.0.to_string(), |time| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// A table with a header whose columns from `right_from` on are aligned to the right. One line a row, so that `grep` and `head` work.
pub(super) fn table(header: &[&str], right_from: usize, rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let rows: Vec<Vec<String>> = rows.into_iter().collect();
    let head: Vec<String> = header.iter().map(|name| (*name).to_owned()).collect();
    let lines = || std::iter::once(&head).chain(&rows);
    let length = |text: &String| text.chars().count();
    let widths: Vec<usize> =
        (0..header.len()).map(|column| lines().filter_map(|row| row.get(column)).map(length).max().unwrap_or(0)).collect();
    let draw = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate();
        let cells =
            cells.map(|(column, (cell, width))| if column < right_from { format!("{cell:<width$}") } else { format!("{cell:>width$}") });
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    let rule = "─".repeat(widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1));
    format!("{}{rule}\n{}", draw(&head), rows.iter().map(draw).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_as_people_write_them() {
        assert_eq!(percent(0.125), "12.5 %");
        assert_eq!(range(0.0, 1.0), "0.0 to 100.0");
        assert_eq!((usd(0.0), usd(1234.0)), ("0".to_owned(), "0.0012".to_owned()));
        // 2026-01-01 00:00:00 UTC is 20454 days after the epoch.
        assert_eq!(time(Timestamp(20_454 * 86_400_000)), "2026-01-01T00:00:00Z");
        let none = Amount { episodes: 5, tokens: u64::MAX, micro_usd: 2_500_000 };
        assert_eq!(amount(none), "5 episodes, no limit tokens, 2.50 usd");
        assert_eq!(amount_json(none), json!({"episodes": 5, "tokens": null, "usd": 2.5}));
    }

    #[test]
    fn tables_have_a_line_a_row() {
        let rows = [["a", "1"], ["bcd", "20"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(table(&["id", "n"], 1, rows), "id    n\n───────\na     1\nbcd  20\n");
    }
}
