//! Training steps of a small Qwen3 (4 layers, 256 wide, 4.2 M parameters) on 4 rows of 512 tokens: for each kind of training the
//! tokens a second of the mean and of the fastest step, and the process's peak memory. One JSON line per figure.
//!
//! `cargo bench --bench student_training -- [STEPS]` (default 8; the first is not counted). `RAYON_NUM_THREADS` sets the
//! threads.

#![cfg_attr(feature = "student", expect(clippy::unwrap_used, clippy::print_stdout, reason = "a bench prints, and a failure ends it"))]

#[cfg(feature = "student")]
mod student {
    use std::time::Instant;

    use candle_core::Device;
    use harness_evo::base::SeedTree;
    use harness_evo::student::config::{Family, NetworkConfig};
    use harness_evo::student::network::{
        AdapterConfig, BaseWeights, Checkpointing, Network, PackedBatch, Projection, Scaling, Targets, TrainingPass,
    };
    use harness_evo::student::optimizer::{AdamW, AdamWConfig};
    use harness_evo::student::weights::random;

    const ROWS: usize = 4;
    const LENGTH: usize = 512;

    pub(crate) fn run(steps: usize) {
        let mut reference = None;
        for checkpointing in [Checkpointing::Off, Checkpointing::EveryLayer] {
            for base in [BaseWeights::Train, BaseWeights::Frozen] {
                measure(steps, base, checkpointing, &mut reference);
            }
        }
    }

    fn network(base: BaseWeights) -> Network {
        let config = NetworkConfig {
            family: Family::Qwen3,
            vocabulary: 4096,
            hidden: 256,
            intermediate: 768,
            layers: 4,
            heads: 4,
            kv_heads: 2,
            head_dim: 64,
            norm_epsilon: 1e-6,
            rope_theta: 1e6,
            max_positions: LENGTH,
            tied: true,
            eos: vec![],
            bos: None,
        };
        let weights = random(&config, &SeedTree::new(1), &Device::Cpu).unwrap();
        let network = Network::new(weights.config, weights.tensors, base).unwrap();
        let adapter = AdapterConfig {
            rank: 8,
            alpha: 16.0,
            dropout: 0.0,
            scaling: Scaling::Standard,
            targets: Projection::ALL.into_iter().collect(),
        };
        match base {
            BaseWeights::Train => network,
            BaseWeights::Frozen => network.with_adapters(&adapter, &SeedTree::new(2)).unwrap(),
        }
    }

    fn measure(steps: usize, base: BaseWeights, checkpointing: Checkpointing, reference: &mut Option<f64>) {
        let network = network(base);
        let id = |i: u64| u32::try_from(SeedTree::new(3).index(i).value() % 4096).unwrap();
        let rows: Vec<Vec<Vec<u32>>> = (0..ROWS).map(|row| vec![(0..LENGTH).map(|i| id((row * LENGTH + i) as u64)).collect()]).collect();
        let batch = PackedBatch::from_documents(&rows, 0).unwrap();
        let next = rows.iter().flat_map(|row| [&row[0][1..], &[0]].concat()).collect();
        let weight = |i: usize| if i % LENGTH == LENGTH - 1 { 0.0 } else { 1.0 / 2044.0 };
        let targets = Targets::new(next, (0..ROWS * LENGTH).map(weight).collect()).unwrap();
        let mut optimizer = AdamW::new(AdamWConfig::default(), &network).unwrap();
        let mut gradients = network.zero_gradients().unwrap();
        let how = TrainingPass { checkpointing, dropout: None };
        let (mut seconds, mut losses) = (Vec::new(), Vec::new());
        for _ in 0..=steps {
            let start = Instant::now();
            gradients.clear().unwrap();
            losses.push(network.accumulate(&batch, &targets, &how, &mut gradients).unwrap());
            optimizer.step(&network, &gradients, 3e-4, Some(1.0)).unwrap();
            seconds.push(start.elapsed().as_secs_f64());
        }
        let counted = &seconds[1..];
        let tokens = f64::from(u32::try_from(ROWS * LENGTH).unwrap());
        let mean = counted.iter().sum::<f64>() / f64::from(u32::try_from(counted.len()).unwrap());
        let best = counted.iter().copied().fold(f64::INFINITY, f64::min);
        assert!(losses.iter().all(|loss| loss.is_finite()), "{losses:?}");
        let kind = format!("{base:?}, recomputing {checkpointing:?}, {} threads", rayon::current_num_threads());
        let first = *reference.get_or_insert(tokens / mean);
        let lines = [("mean step", tokens / mean, "tokens/s"), ("fastest step", tokens / best, "tokens/s")];
        for (figure, value, unit) in lines {
            let line = serde_json::json!({
                "bench": "student_training", "figure": format!("{kind}: {figure}"), "value": value, "unit": unit,
                "against": "all weights, mean step, this run", "ratio": value / first,
            });
            println!("{line}");
        }
        let line = serde_json::json!({
            "bench": "student_training", "figure": format!("{kind}: peak memory of the process so far"), "value": peak_mib(), "unit": "MiB",
            "against": serde_json::Value::Null, "ratio": serde_json::Value::Null,
        });
        println!("{line}");
    }

    fn peak_mib() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find(|line| line.starts_with("VmHWM:"));
        line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).unwrap_or(0) / 1024
    }
}

fn main() {
    #[cfg(feature = "student")]
    student::run(std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(8));
}
