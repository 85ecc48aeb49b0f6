//! Small Python functions: right, broken as a project may have them, and mended or written carelessly, with cases worked out here.

use serde_json::{Value, json};

use super::hidden::Case;
use crate::forge::vocabulary::{Dice, PLACES, WORDS, fill};

/// A function and its wrong versions.
#[derive(Debug, Clone)]
pub(super) struct Routine {
    /// Its name.
    pub(super) name: String,
    /// Its parameters, as in the signature.
    pub(super) parameters: &'static str,
    /// What it does, as sentences.
    pub(super) about: String,
    /// The body that is right.
    pub(super) right: String,
    /// The body a project may have.
    pub(super) broken: String,
    /// The body a careless person writes.
    pub(super) careless: String,
    /// A Python condition for the case in which there is nothing to compute.
    pub(super) edge: &'static str,
    /// That case in words.
    pub(super) edge_words: &'static str,
    /// Arguments that are such a case.
    pub(super) edge_arguments: Vec<Vec<Value>>,
    numbers: [i64; 2],
    cases: fn(&mut Dice, [i64; 2]) -> Vec<Case>,
}

impl Routine {
    /// Its source with `body`.
    pub(super) fn source(&self, body: &str) -> String {
        format!("def {}({}):\n{body}", self.name, self.parameters)
    }

    /// Cases that tell the right body from the others, and random ones.
    pub(super) fn cases(&self, dice: &mut Dice) -> Vec<Case> {
        (self.cases)(dice, self.numbers)
    }
}

/// `n` different routines, named and with numbers of their own.
pub(super) fn routines(dice: &mut Dice, n: usize) -> Vec<Routine> {
    let mut makers: [fn(&mut Dice) -> Routine; 10] =
        [window_sums, page_of, grade_of, tidy_name, run_lengths, round_to, overlap, minutes_of, check_digit, most_frequent];
    dice.shuffle(&mut makers);
    makers.iter().take(n).map(|make| make(dice)).collect()
}

fn named(dice: &mut Dice, stems: &[&'static str]) -> String {
    let word = dice.pick(WORDS);
    format!("{}_{word}", dice.pick(stems))
}

fn numbers(dice: &mut Dice, low: usize, high: usize) -> Vec<i64> {
    (0..dice.count(low, high)).map(|_| dice.number(-20, 99)).collect()
}

fn window_sums(dice: &mut Dice) -> Routine {
    let body = "    return [sum(values[i:i + size]) for i in range(@range@)]\n";
    Routine {
        name: named(dice, &["window_sums", "rolling_sums", "sliding_totals"]),
        parameters: "values, size",
        about: "It returns the list of the sums of every `size` neighbouring values, from left to right; fewer values than `size` give an empty list."
            .to_owned(),
        right: fill(body, &[("range", "len(values) - size + 1")]),
        broken: fill(body, &[("range", "len(values) - size")]),
        careless: fill(body, &[("range", "len(values)")]),
        edge: "not values",
        edge_words: "an empty list of values",
        edge_arguments: vec![vec![json!([]), json!(2)], vec![json!([]), json!(1)]],
        numbers: [0, 0],
        cases: |dice, _| {
            (0..dice.count(8, 12))
                .map(|number| {
                    let (values, size) = (numbers(dice, 3, 8), if number == 0 { 2 } else { dice.count(1, 5) });
                    let sums: Vec<i64> = values.windows(size).map(|window| window.iter().sum()).collect();
                    (vec![json!(values), json!(size)], json!(sums))
                })
                .collect()
        },
    }
}

fn page_of(dice: &mut Dice) -> Routine {
    let body = "    start = @start@\n    return items[start:start + @size@]\n";
    Routine {
        name: named(dice, &["page_of", "page_items", "slice_page"]),
        parameters: "items, page, size",
        about: "It returns the items of page number `page`, counted from 1, with `size` items a page; the last page may be shorter, pages behind it are empty."
            .to_owned(),
        right: fill(body, &[("start", "(page - 1) * size"), ("size", "size")]),
        broken: fill(body, &[("start", "page * size"), ("size", "size")]),
        careless: fill(body, &[("start", "(page - 1) * size"), ("size", "size - 1")]),
        edge: "not items",
        edge_words: "an empty list of items",
        edge_arguments: vec![vec![json!([]), json!(1), json!(3)], vec![json!([]), json!(2), json!(4)]],
        numbers: [0, 0],
        cases: |dice, _| {
            (0..dice.count(8, 12))
                .map(|number| {
                    let (items, size) = (numbers(dice, 5, 11), dice.count(2, 4));
                    let page = if number == 0 { 1 } else { dice.count(1, 5) };
                    let shown: Vec<i64> = items.iter().copied().skip((page - 1) * size).take(size).collect();
                    (vec![json!(items), json!(page), json!(size)], json!(shown))
                })
                .collect()
        },
    }
}

fn grade_of(dice: &mut Dice) -> Routine {
    let low = dice.number(20, 45);
    let high = low + dice.number(15, 40);
    let body = format!(
        "    if points @high@ {high}:\n        return 'high'\n    if points @low@ {low}:\n        return 'middle'\n    return 'low'\n"
    );
    Routine {
        name: named(dice, &["grade", "band", "tier"]),
        parameters: "points",
        about: format!("It returns the text 'high' from {high} points on, 'middle' from {low} points on, and 'low' below that."),
        right: fill(&body, &[("high", ">="), ("low", ">=")]),
        broken: fill(&body, &[("high", ">"), ("low", ">")]),
        careless: fill(&body, &[("high", ">="), ("low", ">")]),
        edge: "points is None",
        edge_words: "None for the points",
        edge_arguments: vec![vec![Value::Null]],
        numbers: [low, high],
        cases: |dice, [low, high]| {
            let mut points = vec![low, high, low - 1, high - 1, high + 1];
            points.extend((0..dice.count(3, 6)).map(|_| dice.number(0, 100)));
            let grade = |points| {
                if points >= high {
                    "high"
                } else if points >= low {
                    "middle"
                } else {
                    "low"
                }
            };
            points.into_iter().map(|points| (vec![json!(points)], json!(grade(points)))).collect()
        },
    }
}

fn tidy_name(dice: &mut Dice) -> Routine {
    let mark = dice.pick(&["_", "-", "+"]);
    let body = format!("    return '{mark}'.join(@words@)\n");
    Routine {
        name: named(dice, &["slug", "tidy_name", "key_for"]),
        parameters: "text",
        about: format!(
            "It returns the words of the text in lower case, joined by `{mark}`; blanks at either end and repeated blanks do not count."
        ),
        right: fill(&body, &[("words", "text.lower().split()")]),
        broken: fill(&body, &[("words", "text.lower().split(' ')")]),
        careless: fill(&body, &[("words", "text.lower().strip().split(' ')")]),
        edge: "not text.strip()",
        edge_words: "a blank text",
        edge_arguments: vec![vec![json!("")], vec![json!("   ")]],
        numbers: [i64::from(mark.as_bytes()[0]), 0],
        cases: |dice, [mark, _]| {
            let mark = char::from(u8::try_from(mark).unwrap_or(b'_')).to_string();
            (0..dice.count(7, 10))
                .map(|number| {
                    let count = if number == 0 { 3 } else { dice.count(1, 4) };
                    let words = dice.picks(PLACES, count);
                    let gap = " ".repeat(if number == 0 { 3 } else { dice.count(1, 3) });
                    let text =
                        format!("{}{}{}", " ".repeat(dice.count(0, 2)), words.join(&gap).to_uppercase(), " ".repeat(dice.count(0, 2)));
                    (vec![json!(text)], json!(words.join(&mark)))
                })
                .collect()
        },
    }
}

fn run_lengths(dice: &mut Dice) -> Routine {
    let body = "    runs, start = [], 0
    for i in range(1, len(items) + @extra@):
        if @change@:
            runs.append([items[start], i - start])
            start = i
    return runs
";
    Routine {
        name: named(dice, &["run_lengths", "streaks", "squeeze"]),
        parameters: "items",
        about: "It returns a list of pairs [item, number of times in a row], in order; an empty list gives an empty list.".to_owned(),
        right: fill(body, &[("extra", "1"), ("change", "i == len(items) or items[i] != items[start]")]),
        broken: fill(body, &[("extra", "0"), ("change", "items[i] != items[start]")]),
        careless: fill(body, &[("extra", "1"), ("change", "i == len(items) or items[i] > items[start]")]),
        edge: "not items",
        edge_words: "an empty list of items",
        edge_arguments: vec![vec![json!([])]],
        numbers: [0, 0],
        cases: |dice, _| {
            (0..dice.count(7, 10))
                .map(|number| {
                    let mut items: Vec<i64> = (0..dice.count(1, 9)).map(|_| dice.number(1, 3)).collect();
                    if number == 0 {
                        items.extend([3, 1, 1]);
                    }
                    let runs: Vec<Value> = items.chunk_by(|a, b| a == b).map(|run| json!([run[0], run.len()])).collect();
                    (vec![json!(items)], json!(runs))
                })
                .collect()
        },
    }
}

fn round_to(dice: &mut Dice) -> Routine {
    let unit = 2 * dice.number(2, 30);
    Routine {
        name: named(dice, &["round_cents", "to_step", "rounded"]),
        parameters: "amount",
        about: format!("It rounds a whole amount of at least 0 to the nearest multiple of {unit}, halves up."),
        right: format!("    return (amount + {}) // {unit} * {unit}\n", unit / 2),
        broken: format!("    return amount // {unit} * {unit}\n"),
        careless: format!("    return round(amount / {unit}) * {unit}\n"),
        edge: "amount is None",
        edge_words: "None for the amount",
        edge_arguments: vec![vec![Value::Null]],
        numbers: [unit, 0],
        cases: |dice, [unit, _]| {
            // Half of the unit: rounding half to even would give 0.
            let mut amounts = vec![unit / 2, unit / 2 + 2 * unit, unit - 1, 0, unit];
            amounts.extend((0..dice.count(3, 6)).map(|_| dice.number(0, 900)));
            let round = |amount: i64| {
                let rest = amount % unit;
                if 2 * rest >= unit { amount - rest + unit } else { amount - rest }
            };
            amounts.into_iter().map(|amount| (vec![json!(amount)], json!(round(amount)))).collect()
        },
    }
}

fn overlap(dice: &mut Dice) -> Routine {
    let body = "    length = min(left[1], right[1]) - max(left[0], right[0])\n    return @length@\n";
    Routine {
        name: named(dice, &["overlap", "shared_days", "common_length"]),
        parameters: "left, right",
        about:
            "Both arguments are pairs [start, end] of numbers, the end not included. It returns how long the two overlap, 0 if they do not."
                .to_owned(),
        right: fill(body, &[("length", "max(0, length)")]),
        broken: fill(body, &[("length", "length")]),
        careless: fill(body, &[("length", "abs(length)")]),
        edge: "not left or not right",
        edge_words: "an empty pair on either side",
        edge_arguments: vec![vec![json!([]), json!([1, 4])], vec![json!([2, 9]), json!([])]],
        numbers: [0, 0],
        cases: |dice, _| {
            (0..dice.count(8, 11))
                .map(|number| {
                    let (a, b) = (dice.number(0, 30), if number == 0 { 60 } else { dice.number(0, 40) });
                    let (c, d) = (a + dice.number(1, 20), b + dice.number(1, 20));
                    // Counted point by point, not by the formula of the solution.
                    let length = (a..c).filter(|point| (b..d).contains(point)).count();
                    (vec![json!([a, c]), json!([b, d])], json!(length))
                })
                .collect()
        },
    }
}

fn minutes_of(dice: &mut Dice) -> Routine {
    let body = "    total, number = 0, ''
    for character in text:
        if character.isdigit():
            number += character
        else:
            total += int(number) * {'d': @day@, 'h': @hour@, 'm': 1}[character]
            @reset@
    return total
";
    Routine {
        name: named(dice, &["minutes", "parse_span", "duration"]),
        parameters: "text",
        about: "It turns a span such as `2d3h15m` (days of 24 hours, hours, minutes; each part may be absent) into minutes.".to_owned(),
        right: fill(body, &[("day", "1440"), ("hour", "60"), ("reset", "number = ''")]),
        broken: fill(body, &[("day", "1440"), ("hour", "60"), ("reset", "pass")]),
        careless: fill(body, &[("day", "24"), ("hour", "60"), ("reset", "number = ''")]),
        edge: "not text",
        edge_words: "an empty text",
        edge_arguments: vec![vec![json!("")]],
        numbers: [0, 0],
        cases: |dice, _| {
            (0..dice.count(8, 11))
                .map(|number| {
                    let [days, hours, minutes] = [dice.number(1, 9), dice.number(1, 23), dice.number(1, 59)];
                    let shown = if number == 0 { [true; 3] } else { [dice.chance(60), dice.chance(60), true] };
                    let part = |is_shown: bool, value: i64, unit: &str| if is_shown { format!("{value}{unit}") } else { String::new() };
                    let text = format!("{}{}{}", part(shown[0], days, "d"), part(shown[1], hours, "h"), part(shown[2], minutes, "m"));
                    let total = i64::from(shown[0]) * days * 24 * 60 + i64::from(shown[1]) * hours * 60 + minutes;
                    (vec![json!(text)], json!(total))
                })
                .collect()
        },
    }
}

fn check_digit(dice: &mut Dice) -> Routine {
    let (weight, modulus) = (dice.number(2, 9), [9, 10, 11, 13][dice.count(0, 3)]);
    let body = format!(
        "    total = sum(int(digit) * ({weight} if place % 2 == @parity@ else 1) for place, digit in enumerate(digits))\n    return @result@\n"
    );
    let complement = format!("-total % {modulus}");
    Routine {
        name: named(dice, &["check_digit", "control_number", "checksum"]),
        parameters: "digits",
        about: format!(
            "The digits (a text) are multiplied by {weight}, 1, {weight}, 1 and so on from the left and summed. It returns what must be added to the sum to reach a multiple of {modulus}: a number from 0 to {}.",
            modulus - 1
        ),
        right: fill(&body, &[("parity", "0"), ("result", &complement)]),
        broken: fill(&body, &[("parity", "1"), ("result", &complement)]),
        careless: fill(&body, &[("parity", "0"), ("result", &format!("{modulus} - total % {modulus}"))]),
        edge: "not digits",
        edge_words: "an empty text",
        edge_arguments: vec![vec![json!("")]],
        numbers: [weight, modulus],
        cases: |dice, [weight, modulus]| {
            let mut texts = vec!["0".to_owned(), "10".to_owned(), "40".to_owned(), "0010".to_owned()];
            texts.extend((0..dice.count(5, 8)).map(|_| dice.number(10, 99_999_999).to_string()));
            let digit = |text: &str| {
                let digits = text.bytes().map(|byte| i64::from(byte - b'0'));
                let total: i64 = digits.zip([weight, 1].into_iter().cycle()).map(|(digit, weight)| digit * weight).sum();
                (0..modulus).find(|missing| (total + missing) % modulus == 0)
            };
            texts.iter().map(|text| (vec![json!(text)], json!(digit(text)))).collect()
        },
    }
}

fn most_frequent(dice: &mut Dice) -> Routine {
    let body = "    counts = {}
    for word in words:
        counts[word] = counts.get(word, 0) + 1
    return sorted(counts, key=@key@)[:n]
";
    Routine {
        name: named(dice, &["most_frequent", "common_words", "leaders"]),
        parameters: "words, n",
        about:
            "It returns the `n` most frequent words, the most frequent first; words that are equally frequent are in alphabetical order."
                .to_owned(),
        right: fill(body, &[("key", "lambda word: (-counts[word], word)")]),
        broken: fill(body, &[("key", "lambda word: -counts[word]")]),
        careless: fill(body, &[("key", "lambda word: (counts[word], word), reverse=True")]),
        edge: "not words",
        edge_words: "an empty list of words",
        edge_arguments: vec![vec![json!([]), json!(2)], vec![json!([]), json!(1)]],
        numbers: [0, 0],
        cases: |dice, _| {
            (0..dice.count(7, 9))
                .map(|number| {
                    let pool = dice.picks(WORDS, 4);
                    let mut words: Vec<&str> = (0..dice.count(4, 8)).map(|_| dice.pick(&pool)).collect();
                    if number == 0 {
                        words = vec!["yarrow", "birch", "yarrow", "birch", "maple"];
                    }
                    let n = dice.count(2, 3);
                    let mut counts: Vec<(usize, &str)> = Vec::new();
                    for word in &words {
                        match counts.iter_mut().find(|count| count.1 == *word) {
                            Some(count) => count.0 += 1,
                            None => counts.push((1, word)),
                        }
                    }
                    counts.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
                    let best: Vec<&str> = counts.iter().take(n).map(|count| count.1).collect();
                    (vec![json!(words), json!(n)], json!(best))
                })
                .collect()
        },
    }
}
