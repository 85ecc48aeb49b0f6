//! What the agent says beside its calls: short, plausible, always the same for the same request.

use crate::task::ActRole;

/// What a call is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mood {
    Inspect,
    Work,
    Requirement,
    Look,
    Narrow,
    Again,
    Repair,
    Click,
    Detour,
    Note,
}

impl Mood {
    pub(super) const fn of(role: ActRole) -> Self {
        match role {
            ActRole::Inspect => Self::Inspect,
            ActRole::Work => Self::Work,
            ActRole::Requirement => Self::Requirement,
            ActRole::Verify => Self::Look,
        }
    }

    const fn words(self) -> [&'static str; 2] {
        match self {
            Self::Inspect => ["Looking at what is there.", "Before I change anything I want to know what the files look like."],
            Self::Work => ["Next step.", "This does the part of the work that comes next; I have what I need for it."],
            Self::Requirement => ["One more thing that was asked.", "The instruction also asks for this, so I take care of it now."],
            Self::Look => ["Checking the result.", "I compare the result with what the instruction asks for."],
            Self::Narrow => ["Looking at the part I need.", "I have not seen the part that matters here, so I look at just that part."],
            Self::Again => ["Trying again.", "That did not work as I thought; I try it again."],
            Self::Repair => ["Putting that right.", "That was not right yet. I correct it before going on."],
            Self::Click => ["Looking at the screen.", "I look at the desktop to find the window in which this can be done."],
            Self::Detour => ["Having a look around.", "I use the tool at hand to get an overview; it may turn out to be useful."],
            Self::Note => ["Noting this down.", "I write down what matters, so that I still have it later."],
        }
    }
}

/// How a reply without a call begins that ends the episode.
pub(super) const FAREWELL: &str = "The work is done.";

/// The text of a reply. Guidance towards brevity (strength from -1 to 1) makes it short; without any it is explained.
pub(super) fn say(mood: Mood, brevity: f64, first: bool) -> String {
    let [short, long] = mood.words();
    if brevity > 0.3 {
        short.to_owned()
    } else if first {
        format!("Let me go through the instruction and see what it asks for, in which order, and what could go wrong. {short} {long}")
    } else {
        format!("{short} {long}")
    }
}
