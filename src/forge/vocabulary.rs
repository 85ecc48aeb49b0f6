//! What workflows draw from: numbers, names, codes, and documents long enough to be cut by an observation limit.

use rand::RngExt;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::base::SeedTree;

/// First names.
pub(super) const PEOPLE: &[&str] = &[
    "Amara", "Bjorn", "Chiara", "Dmitri", "Esther", "Farid", "Greta", "Hiro", "Ines", "Jonas", "Katya", "Lamine", "Mira", "Nadia", "Otto",
    "Priya", "Quentin", "Rosa", "Selim", "Tomas", "Ulla", "Viktor", "Wanda", "Yusuf", "Zofia",
];
/// Towns.
pub(super) const PLACES: &[&str] = &[
    "aarhus", "bergen", "cadiz", "dakar", "essen", "faro", "ghent", "hanoi", "izmir", "jaipur", "kyoto", "lagos", "malmo", "nantes",
    "oslo", "porto", "quito", "riga", "split", "turin", "utrecht", "varna", "wroclaw", "york", "zagreb",
];
/// Goods.
pub(super) const GOODS: &[&str] = &[
    "anvil", "basket", "candle", "drum", "easel", "flask", "gasket", "hammer", "inkwell", "jigsaw", "kettle", "ladder", "mirror", "needle",
    "oar", "pulley", "quilt", "ratchet", "spindle", "teapot", "valve", "whistle", "zipper", "bracket", "lantern",
];
/// Words for projects, hosts and folders.
pub(super) const WORDS: &[&str] = &[
    "amber", "birch", "cobalt", "delta", "ember", "falcon", "garnet", "harbor", "indigo", "juniper", "krill", "lumen", "maple", "nickel",
    "orchid", "pebble", "quartz", "raven", "saffron", "thistle", "umber", "velvet", "willow", "yarrow", "zephyr",
];
/// Teams.
pub(super) const TEAMS: &[&str] = &[
    "billing",
    "dispatch",
    "field",
    "finance",
    "intake",
    "legal",
    "logistics",
    "payroll",
    "planning",
    "purchasing",
    "quality",
    "repairs",
    "sales",
    "stores",
    "support",
    "training",
];
/// Months, short.
pub(super) const MONTHS: &[&str] = &["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A source of choices under one node of the seed tree.
#[derive(Debug)]
pub(super) struct Dice {
    rng: ChaCha8Rng,
}

impl Dice {
    /// The choices named `label` under `seeds`.
    pub(super) fn new(seeds: &SeedTree, label: &str) -> Self {
        Self { rng: seeds.child(label).rng() }
    }

    /// A number from `low` to `high`, both possible; `low` if they are the wrong way round.
    pub(super) fn number(&mut self, low: i64, high: i64) -> i64 {
        self.rng.random_range(low..=high.max(low))
    }

    /// As [`Self::number`], for counts and indices.
    pub(super) fn count(&mut self, low: usize, high: usize) -> usize {
        self.rng.random_range(low..=high.max(low))
    }

    /// True `percent` times in a hundred.
    pub(super) fn chance(&mut self, percent: u32) -> bool {
        self.rng.random_range(0..100) < percent
    }

    /// One of `items`, which must not be empty.
    pub(super) fn pick<'a, T: ?Sized>(&mut self, items: &[&'a T]) -> &'a T {
        items[self.count(0, items.len() - 1)]
    }

    /// `n` different ones of `items`, or all of them, in random order.
    pub(super) fn picks<'a>(&mut self, items: &[&'a str], n: usize) -> Vec<&'a str> {
        let mut chosen = items.to_vec();
        chosen.shuffle(&mut self.rng);
        chosen.truncate(n);
        chosen
    }

    /// Puts `items` in random order.
    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        items.shuffle(&mut self.rng);
    }

    /// A code that nobody guesses, for example `QF-4831`.
    pub(super) fn code(&mut self) -> String {
        const LETTERS: &[u8] = b"BCDFGHJKLMNPQRSTVWXZ";
        let mut letter = || char::from(LETTERS[self.rng.random_range(0..LETTERS.len())]);
        let (first, second) = (letter(), letter());
        format!("{first}{second}-{}", self.number(1000, 9999))
    }

    /// A document titled `title` in which the line `key` stands once. Three of four are long, 3 to 9 KB, with the line in the middle or
    /// near the end, where a truncated observation hides it; the others are short.
    pub(super) fn document(&mut self, title: &str, key: &str) -> String {
        let (before, after) = match self.number(0, 7) {
            0..=3 => (self.count(2300, 4600), self.count(1300, 3600)),
            4..=5 => (self.count(2600, 6500), self.count(0, 200)),
            _ => (self.count(100, 400), self.count(100, 400)),
        };
        let mut text = format!("# {title}\n\n");
        self.notes(&mut text, before);
        text.push_str(&format!("- {key}\n"));
        self.notes(&mut text, after);
        text
    }

    /// Appends at least `bytes` of notes that bear on nothing.
    fn notes(&mut self, text: &mut String, bytes: usize) {
        let end = text.len() + bytes;
        let mut line = self.count(1, 5);
        while text.len() < end {
            if line.is_multiple_of(6) {
                let (team, word) = (self.pick(TEAMS), self.pick(WORDS));
                text.push_str(&format!("\n## {team} / {word}\n\n"));
            }
            let note = self.note();
            text.push_str(&format!("- {note}\n"));
            line += 1;
        }
    }

    fn note(&mut self) -> String {
        let (person, place, word, team) = (self.pick(PEOPLE), self.pick(PLACES), self.pick(WORDS), self.pick(TEAMS));
        let number = self.number(2, 95);
        match self.number(0, 9) {
            0 => format!("{person} from {team} looks after the {word} feed; write to her or him before moving folders."),
            1 => format!("Host {word}-{number} in {place} is restarted every second Tuesday."),
            2 => format!("Old archives older than {number} weeks go to the {word} share in {place}."),
            3 => format!("The {team} team prints this page; keep lines short for {person}."),
            4 => format!("A scan of the {place} contract lies in binder {number}, shelf {word}."),
            5 => format!("Ticket {} ({team}) was closed by {person} without a change.", self.code()),
            6 => format!("The {word} job took {number} s on average last quarter, mostly waiting for {place}."),
            7 => format!("In {place} the {team} desk is staffed until {} h.", self.number(14, 20)),
            8 => format!("{person} asked whether {word} can be retired; undecided since week {}.", self.number(1, 52)),
            _ => format!("Backups of {word} are verified by {person} on day {} of the month.", self.number(1, 28)),
        }
    }

    /// `intro` followed by the constraints, as bullets, as numbers or as plain sentences.
    pub(super) fn listed(&mut self, intro: &str, constraints: &[String]) -> String {
        let (lead, mut text) = match self.number(0, 2) {
            0 => ("- ", format!("{intro}\n\nPlease note:\n")),
            1 => ("#. ", format!("{intro}\n\nWhat matters:\n")),
            _ => ("", format!("{intro} ")),
        };
        for (index, constraint) in constraints.iter().enumerate() {
            match lead {
                "" => text.push_str(&format!("{constraint} ")),
                _ => text.push_str(&format!("{}{constraint}\n", lead.replace('#', &(index + 1).to_string()))),
            }
        }
        text.trim_end().to_owned()
    }
}

/// `template` with every `@name@` of `values` replaced. Names that are not in the template are passed over.
pub(super) fn fill(template: &str, values: &[(&str, &str)]) -> String {
    values.iter().fold(template.to_owned(), |text, (name, value)| text.replace(&format!("@{name}@"), value))
}

/// `cents` as a decimal with two places.
pub(super) fn money(cents: i64) -> String {
    let sign = if cents < 0 { "-" } else { "" };
    format!("{sign}{}.{:02}", cents.abs() / 100, cents.abs() % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_has_two_places_and_one_sign() {
        assert_eq!([money(5), money(-5), money(123_456), money(-100)], ["0.05", "-0.05", "1234.56", "-1.00"]);
    }

    #[test]
    fn long_documents_hide_their_key_from_the_default_head() {
        let root = SeedTree::new(3);
        let hidden = (0..200)
            .filter(|i| {
                let text = Dice::new(&root.index(*i), "d").document("Notes", "the key KEY");
                assert_eq!(text.matches("the key KEY").count(), 1);
                assert!(text.len() < 12_000);
                text.find("the key KEY").is_some_and(|at| at > 2000)
            })
            .count();
        assert!((120..=180).contains(&hidden), "{hidden}");
    }
}
