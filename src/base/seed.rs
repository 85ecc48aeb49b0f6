//! A tree of seeds: every random decision draws from a node named after what it decides.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// A node of the seed tree. Children are derived by keyed BLAKE3, so that the numbers a decision sees depend on its
/// name alone, never on the order in which decisions are taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeedTree {
    key: [u8; 32],
}

impl SeedTree {
    /// The root for a user's seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { key: *blake3::Hasher::new_derive_key("harness-evo 2026 seed tree").update(&seed.to_le_bytes()).finalize().as_bytes() }
    }

    /// The child named `label`.
    #[must_use]
    pub fn child(&self, label: &str) -> Self {
        Self { key: *blake3::keyed_hash(&self.key, label.as_bytes()).as_bytes() }
    }

    /// The child numbered `index`.
    #[must_use]
    pub fn index(&self, index: u64) -> Self {
        // The tag byte keeps numbers apart from eight-byte labels.
        let mut name = [0xff; 9];
        name[1..].copy_from_slice(&index.to_le_bytes());
        Self { key: *blake3::keyed_hash(&self.key, &name).as_bytes() }
    }

    /// A generator that starts at this node.
    #[must_use]
    pub fn rng(&self) -> ChaCha8Rng {
        ChaCha8Rng::from_seed(self.key)
    }

    /// 64 bits of this node: a seed for something that takes a number.
    #[must_use]
    pub fn value(&self) -> u64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.key[..8]);
        u64::from_le_bytes(bytes)
    }

    /// A number in `[0, 1)` with 53 bits.
    #[must_use]
    pub fn fraction(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit a double exactly")]
        let numerator = (self.value() >> 11) as f64;
        numerator / 9_007_199_254_740_992.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_depends_on_its_path_only() {
        let a = SeedTree::new(7).child("eval").index(3);
        let _other = SeedTree::new(7).child("else").index(9).rng();
        assert_eq!(a, SeedTree::new(7).child("eval").index(3));
        assert_ne!(a, SeedTree::new(8).child("eval").index(3));
        assert_ne!(SeedTree::new(7).index(1), SeedTree::new(7).child("1"));
    }

    #[test]
    fn fractions_are_uniform_enough() {
        let root = SeedTree::new(1);
        let n = 20_000_u32;
        let mean = (0..n).map(|i| root.index(u64::from(i)).fraction()).sum::<f64>() / f64::from(n);
        // Standard error of the mean of a uniform: 0.2887 / sqrt(n) = 0.002; five of them.
        assert!((mean - 0.5).abs() < 0.0103, "{mean}");
    }
}
