//! How long an endpoint asks to wait (RFC 9110, section 10.2.3).

use std::time::Duration;

use reqwest::header::HeaderMap;

use crate::base::Timestamp;

/// The wait that `retry-after-ms` (OpenAI) or `retry-after` (seconds or a date) asks for; none where neither can be read.
pub(super) fn of(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    if let Some(wait) = text("retry-after-ms").and_then(|value| number(value, 1000.0)) {
        return Some(wait);
    }
    let value = text("retry-after")?;
    number(value, 1.0).or_else(|| date(value, now))
}

fn number(value: &str, per_second: f64) -> Option<Duration> {
    let amount: f64 = value.parse().ok()?;
    Duration::try_from_secs_f64(amount / per_second).ok()
}

fn date(value: &str, now: Timestamp) -> Option<Duration> {
    let then = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(value).ok()?;
    // A date that has passed asks for no wait.
    Some(Duration::from_millis(u64::try_from(then.as_millisecond() - now.0).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 784111777 s is the date of the example in RFC 9110, `Sun, 06 Nov 1994 08:49:37 GMT`.
    const NOW: Timestamp = Timestamp(784_111_777_000);

    fn asked(pairs: &[(&'static str, &'static str)]) -> Option<Duration> {
        let headers = pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        of(&headers, NOW)
    }

    #[test]
    fn seconds_milliseconds_and_dates_are_read() {
        assert_eq!(asked(&[("retry-after", "7")]), Some(Duration::from_secs(7)));
        assert_eq!(asked(&[("retry-after", "0.25")]), Some(Duration::from_millis(250)));
        assert_eq!(asked(&[("retry-after", "9"), ("retry-after-ms", "120")]), Some(Duration::from_millis(120)));
        assert_eq!(asked(&[("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT")]), Some(Duration::from_secs(30)));
        assert_eq!(asked(&[("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT")]), Some(Duration::ZERO));
    }

    #[test]
    fn rubbish_asks_for_nothing() {
        for value in ["", "soon", "-3", "NaN", "1e300"] {
            assert_eq!(asked(&[("retry-after", value)]), None, "{value}");
        }
        assert_eq!(asked(&[]), None);
    }
}
