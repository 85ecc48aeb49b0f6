//! Networks against `transformers` and `peft` (fixtures by `tests/fixtures/student/make.py`), and against themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use candle_core::{DType, Device, Tensor};

use super::*;
use crate::base::SeedTree;
use crate::student::config::Family;
use crate::student::lora::{load_adapter, save_adapter};
use crate::student::ops::testing::assert_close;
use crate::student::optimizer::{AdamW, AdamWConfig, Decays};
use crate::student::weights::{Weights, load, random, save, write_tensors};

const FAMILIES: [&str; 2] = ["qwen3", "llama"];
const PLAIN: TrainingPass = TrainingPass { checkpointing: Checkpointing::Off, dropout: None };

fn fixtures(family: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/student").join(family)
}

fn reference(family: &str, file: &str) -> BTreeMap<String, Vec<f32>> {
    let path = fixtures(family).join(file);
    let bytes = std::fs::read(path).unwrap();
    let file = ::safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let numbers = |view: ::safetensors::tensor::TensorView<'_>| -> Vec<f32> {
        let data = view.data();
        match view.dtype() {
            ::safetensors::Dtype::F32 => data.chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect(),
            #[expect(clippy::cast_precision_loss, reason = "token ids are small")]
            _ => data.chunks(8).map(|b| i64::from_le_bytes(b.try_into().unwrap()) as f32).collect(),
        }
    };
    file.tensors().into_iter().map(|(name, view)| (name, numbers(view))).collect()
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "token ids are small")]
fn ids(reference: &BTreeMap<String, Vec<f32>>) -> Vec<u32> {
    reference["ids"].iter().map(|id| *id as u32).collect()
}

fn network(family: &str, base: BaseWeights, kernels: Kernels) -> Network {
    let weights = load(&fixtures(family), DType::F32, &Device::Cpu).unwrap();
    let network = Network::new(weights.config, weights.tensors, base).unwrap();
    if kernels == Kernels::Composed { network.composed() } else { network }
}

/// Two rows of one document; the loss is the mean over all tokens but the first of each row.
fn batch_and_targets(ids: &[u32]) -> (PackedBatch, Targets) {
    let length = ids.len() / 2;
    let rows: Vec<Vec<Vec<u32>>> = ids.chunks(length).map(|row| vec![row.to_vec()]).collect();
    let next = ids.chunks(length).flat_map(|row| [&row[1..], &[0]].concat()).collect();
    #[expect(clippy::cast_precision_loss, reason = "a small count")]
    let weight = 1.0 / (ids.len() - 2) as f32;
    let weights = (0..ids.len()).map(|i| if i % length == length - 1 { 0.0 } else { weight }).collect();
    (PackedBatch::from_documents(&rows, 0).unwrap(), Targets::new(next, weights).unwrap())
}

fn flat(tensor: &Tensor) -> Vec<f32> {
    tensor.to_dtype(DType::F32).unwrap().flatten_all().unwrap().to_vec1().unwrap()
}

/// The logits after every token, token by token over both rows at once.
fn logits(network: &Network, ids: &[u32]) -> Vec<f32> {
    let length = ids.len() / 2;
    let mut rows = vec![network.new_row(), network.new_row()];
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for i in 0..length {
        let mut found = network.extend(&mut rows, &[&ids[i..=i], &ids[length + i..=length + i]]).unwrap();
        second.extend(found.pop().unwrap());
        first.extend(found.pop().unwrap());
    }
    [first, second].concat()
}

/// An element-wise bound relative to the tensor's largest element, with a floor where the whole tensor is tiny.
fn assert_gradients(gradients: &Gradients, reference: &BTreeMap<String, Vec<f32>>) {
    let expected: Vec<&String> = reference.keys().filter(|key| key.starts_with("gradient.")).collect();
    assert_eq!(gradients.iter().count(), expected.len());
    for key in expected {
        let name = key.strip_prefix("gradient.").unwrap();
        assert_close(name, &flat(gradients.get(name).unwrap()), &reference[key], 1e-3);
    }
}

#[test]
fn logits_loss_gradients_and_a_step_are_those_of_transformers() {
    for family in FAMILIES {
        let expected = reference(family, "reference.safetensors");
        let ids = ids(&expected);
        let (batch, targets) = batch_and_targets(&ids);
        for kernels in [Kernels::Fused, Kernels::Composed] {
            let network = network(family, BaseWeights::Train, kernels);
            assert_close("logits", &logits(&network, &ids), &expected["logits"], 1e-4);
            let mut gradients = network.zero_gradients().unwrap();
            let loss = network.accumulate(&batch, &targets, &PLAIN, &mut gradients).unwrap();
            assert!((loss - f64::from(expected["loss"][0])).abs() < 1e-5, "{family}: {loss}");
            assert!((network.loss(&batch, &targets).unwrap() - loss).abs() < 1e-6);
            assert_gradients(&gradients, &expected);
            let constants = AdamWConfig { beta1: 0.9, beta2: 0.95, epsilon: 1e-8, weight_decay: 0.1, decays: Decays::All };
            let mut optimizer = AdamW::new(constants, &network).unwrap();
            optimizer.step(&network, &gradients, 1e-2, None).unwrap();
            for parameter in network.parameters() {
                // A first step moves each weight by the rate and the sign of its gradient: where the gradient is lost in
                // rounding the sign is too. Such weights are left out, and are few.
                let gradient = &expected[&format!("gradient.{}", parameter.name())];
                let pairs = flat(parameter.tensor()).into_iter().zip(&expected[&format!("stepped.{}", parameter.name())]);
                let clear = pairs.zip(gradient).filter(|(_, gradient)| gradient.abs() > 1e-6);
                let wrong = clear.filter(|((found, expected), _)| (found - **expected).abs() > 1e-5).count();
                assert_eq!(wrong, 0, "{family} {kernels:?} {}", parameter.name());
            }
        }
    }
}

#[test]
fn an_adapter_of_peft_gives_its_logits_and_gradients() {
    for family in FAMILIES {
        let expected = reference(family, "adapter.safetensors");
        let ids = ids(&reference(family, "reference.safetensors"));
        let (batch, targets) = batch_and_targets(&ids);
        for kernels in [Kernels::Fused, Kernels::Composed] {
            let files = load_adapter(&fixtures(family).join("adapter")).unwrap();
            let network = network(family, BaseWeights::Train, kernels).with_adapter_weights(&files.config, files.factors).unwrap();
            assert_close("logits", &logits(&network, &ids), &expected["logits"], 1e-4);
            let mut gradients = network.zero_gradients().unwrap();
            let loss = network.accumulate(&batch, &targets, &PLAIN, &mut gradients).unwrap();
            assert!((loss - f64::from(expected["loss"][0])).abs() < 1e-5, "{family}: {loss}");
            assert_gradients(&gradients, &expected);
            let merged = Network::new(network.config().clone(), network.merged_weights().unwrap(), BaseWeights::Frozen).unwrap();
            assert_close("merged", &logits(&merged, &ids), &expected["logits"], 1e-4);
        }
    }
}

fn adapter_config(dropout: f64) -> AdapterConfig {
    AdapterConfig { rank: 2, alpha: 4.0, dropout, scaling: Scaling::Standard, targets: Projection::ALL.into_iter().collect() }
}

/// A small network with adapters that are not zero.
fn adapted(family: &str, dropout: f64, kernels: Kernels) -> Network {
    let plain = network(family, BaseWeights::Frozen, kernels).with_adapters(&adapter_config(dropout), &SeedTree::new(5)).unwrap();
    let factors = plain.adapter_weights().unwrap().into_iter();
    let factors = factors.enumerate().map(|(i, (name, tensor))| {
        let numbers = crate::student::ops::testing::random(i as u64, tensor.elem_count());
        (name, (Tensor::from_vec(numbers, tensor.shape(), &Device::Cpu).unwrap() * 0.3).unwrap())
    });
    let factors = factors.collect();
    network(family, BaseWeights::Frozen, kernels).with_adapter_weights(&adapter_config(dropout), factors).unwrap()
}

/// Two rows of several documents with padding, and uneven weights.
fn packed() -> (PackedBatch, Targets) {
    let rows = [vec![vec![5, 6, 7, 8, 9], vec![10, 11, 12]], vec![vec![20, 21], vec![30, 31, 32, 33]]];
    let batch = PackedBatch::from_documents(&rows, 0).unwrap();
    let ids = batch.ids().iter().map(|id| (id * 7 + 3) % 97).collect();
    let weights = (0_u8..16).map(|i| if i % 5 == 0 { 0.0 } else { f32::from(i) / 16.0 - 0.2 }).collect();
    (batch, Targets::new(ids, weights).unwrap())
}

fn all(gradients: &Gradients) -> BTreeMap<String, Vec<f32>> {
    gradients.iter().map(|(name, gradient)| (name.to_owned(), flat(gradient))).collect()
}

#[test]
fn every_weight_that_trains_gets_the_same_gradient_with_and_without_checkpoints_on_both_kernels() {
    let (batch, targets) = packed();
    for family in FAMILIES {
        for dropout in [None, Some(SeedTree::new(9))] {
            let make = |kernels| match &dropout {
                None => network(family, BaseWeights::Train, kernels),
                Some(_) => adapted(family, 0.2, kernels),
            };
            let run = |network: &Network, checkpointing| {
                let mut gradients = network.zero_gradients().unwrap();
                let how = TrainingPass { checkpointing, dropout: dropout.clone() };
                let loss = network.accumulate(&batch, &targets, &how, &mut gradients).unwrap();
                (loss, all(&gradients))
            };
            let fused = make(Kernels::Fused);
            let (loss, plain) = run(&fused, Checkpointing::Off);
            assert_eq!(plain.len(), fused.trainable().len());
            for (name, gradient) in &plain {
                assert!(gradient.iter().any(|x| *x != 0.0) && gradient.iter().all(|x| x.is_finite()), "{family} {name}");
            }
            assert_eq!(run(&fused, Checkpointing::EveryLayer), (loss, plain.clone()), "{family}");
            let composed = make(Kernels::Composed);
            for checkpointing in [Checkpointing::Off, Checkpointing::EveryLayer] {
                let (other_loss, other) = run(&composed, checkpointing);
                assert!((loss - other_loss).abs() < 1e-4);
                for (name, gradient) in &other {
                    assert_close(name, &plain[name], gradient, 1e-3);
                }
            }
        }
    }
}

#[test]
fn dropout_changes_training_and_nothing_else() {
    let (batch, targets) = packed();
    let network = adapted("qwen3", 0.5, Kernels::Fused);
    let run = |dropout: Option<u64>| {
        let mut gradients = network.zero_gradients().unwrap();
        let how = TrainingPass { checkpointing: Checkpointing::Off, dropout: dropout.map(SeedTree::new) };
        network.accumulate(&batch, &targets, &how, &mut gradients).unwrap()
    };
    assert_eq!(run(Some(1)), run(Some(1)));
    assert_ne!(run(Some(1)), run(Some(2)));
    assert!((run(None) - network.loss(&batch, &targets).unwrap()).abs() < 1e-6);
}

#[test]
fn packed_documents_give_the_gradients_of_separate_ones() {
    let documents = [vec![5_u32, 6, 7, 8, 9], vec![10, 11, 12], vec![20, 21]];
    for kernels in [Kernels::Fused, Kernels::Composed] {
        let network = network("qwen3", BaseWeights::Train, kernels);
        let run = |rows: &[Vec<Vec<u32>>]| {
            let batch = PackedBatch::from_documents(rows, 0).unwrap();
            let targets = Targets::new(batch.ids().iter().map(|id| (id * 5 + 1) % 97).collect(), vec![0.25; batch.tokens()]).unwrap();
            let mut gradients = network.zero_gradients().unwrap();
            let loss = network.accumulate(&batch, &targets, &PLAIN, &mut gradients).unwrap();
            (loss, all(&gradients))
        };
        let (loss, together) = run(&[documents.to_vec()]);
        let mut sum = 0.0;
        let mut apart: BTreeMap<String, Vec<f32>> = BTreeMap::new();
        for document in &documents {
            let (loss, gradients) = run(&[vec![document.clone()]]);
            sum += loss;
            for (name, gradient) in gradients {
                let entry = apart.entry(name).or_insert_with(|| vec![0.0; gradient.len()]);
                entry.iter_mut().zip(gradient).for_each(|(sum, x)| *sum += x);
            }
        }
        assert!((loss - sum).abs() < 1e-4, "{loss} {sum}");
        for (name, gradient) in &apart {
            assert_close(name, &together[name], gradient, 1e-3);
        }
    }
}

#[test]
fn a_loss_of_log_probabilities_has_the_gradient_of_its_slopes() {
    let (batch, targets) = packed();
    for kernels in [Kernels::Fused, Kernels::Composed] {
        let network = network("llama", BaseWeights::Train, kernels);
        let mut direct = network.zero_gradients().unwrap();
        network.accumulate(&batch, &targets, &PLAIN, &mut direct).unwrap();
        let mut given = network.zero_gradients().unwrap();
        let found = network
            .accumulate_with::<NetworkError>(&batch, &targets, &PLAIN, &mut given, |found| {
                assert_eq!(found.len(), batch.tokens());
                Ok(targets.weights().iter().map(|weight| -weight).collect())
            })
            .unwrap();
        assert_eq!(found, network.log_probabilities(&batch, &targets).unwrap());
        assert_eq!(all(&given), all(&direct));
        // They are logarithms of shares: those of one token over all targets sum to one.
        let all_targets = |target: u32| {
            let mut weights = vec![0.0; batch.tokens()];
            weights[3] = 1.0;
            network.log_probabilities(&batch, &Targets::new(vec![target; batch.tokens()], weights).unwrap()).unwrap()[3]
        };
        let total: f32 = (0..97).map(|target| all_targets(target).exp()).sum();
        assert!((total - 1.0).abs() < 1e-4, "{total}");
        let failed = network.accumulate_with(&batch, &targets, &PLAIN, &mut given, |_| Err(NetworkError::Batch("mine".into())));
        assert_eq!(failed.unwrap_err().to_string(), "batch: mine");
    }
}

#[test]
fn rows_of_different_lengths_generate_what_they_would_alone() {
    for kernels in [Kernels::Fused, Kernels::Composed] {
        let network = network("qwen3", BaseWeights::Frozen, kernels);
        let alone = |tokens: &[u32]| network.extend(&mut [network.new_row()], &[tokens]).unwrap().remove(0);
        let mut rows = vec![network.new_row(), network.new_row()];
        let found = network.extend(&mut rows, &[&[5, 6, 7, 8], &[9]]).unwrap();
        assert_close("prefill", &found[0], &alone(&[5, 6, 7, 8]), 1e-5);
        assert_close("prefill", &found[1], &alone(&[9]), 1e-5);
        let mut fork = rows[0].clone();
        let found = network.extend(&mut rows, &[&[1], &[2, 3]]).unwrap();
        assert_close("step", &found[0], &alone(&[5, 6, 7, 8, 1]), 1e-5);
        assert_close("step", &found[1], &alone(&[9, 2, 3]), 1e-5);
        assert_eq!((rows[0].length(), rows[1].length(), fork.length()), (5, 3, 4));
        fork.truncate(2).unwrap();
        let found = network.extend(std::slice::from_mut(&mut fork), &[&[4]]).unwrap();
        assert_close("fork", &found[0], &alone(&[5, 6, 4]), 1e-5);
        assert!(network.extend(&mut rows, &[&[1], &[]]).is_err());
        assert!(network.extend(&mut rows, &[&[1], &[97]]).is_err());
    }
}

#[test]
fn half_precision_runs_on_stock_operations() {
    let (batch, targets) = packed();
    let weights = load(&fixtures("qwen3"), DType::BF16, &Device::Cpu).unwrap();
    let half = Network::new(weights.config, weights.tensors, BaseWeights::Train).unwrap();
    assert_eq!(half.kernels(), Kernels::Composed);
    let full = network("qwen3", BaseWeights::Train, Kernels::Fused);
    let run = |network: &Network| {
        let mut gradients = network.zero_gradients().unwrap();
        let loss = network.accumulate(&batch, &targets, &PLAIN, &mut gradients).unwrap();
        (loss, gradients.norm().unwrap())
    };
    let ((loss, norm), (full_loss, full_norm)) = (run(&half), run(&full));
    // Eight bits of precision.
    assert!(
        (loss - full_loss).abs() < 0.05 * full_loss.abs() && (norm - full_norm).abs() < 0.1 * full_norm,
        "{loss} {full_loss} {norm} {full_norm}"
    );
    let mut optimizer = AdamW::new(AdamWConfig::default(), &half).unwrap();
    let mut gradients = half.zero_gradients().unwrap();
    half.accumulate(&batch, &targets, &PLAIN, &mut gradients).unwrap();
    // Far below what eight bits resolve: only weights kept in full precision can add it up.
    for _ in 0..50 {
        optimizer.step(&half, &gradients, 1e-4, None).unwrap();
    }
    assert!(run(&half).0 < loss, "{} {loss}", run(&half).0);
}

#[test]
fn a_deep_network_trains_on_a_small_stack() {
    let work = || {
        let mut config = NetworkConfig::nano(97, 0).unwrap();
        (config.hidden, config.intermediate, config.layers, config.head_dim) = (8, 8, 400, 2);
        let weights = random(&config, &SeedTree::new(1), &Device::Cpu).unwrap();
        let network = Network::new(config, weights.tensors, BaseWeights::Train).unwrap().composed();
        let (batch, targets) = packed();
        let mut gradients = network.zero_gradients().unwrap();
        network.accumulate(&batch, &targets, &PLAIN, &mut gradients).unwrap();
        gradients.norm().unwrap()
    };
    let norm = std::thread::Builder::new().stack_size(1 << 20).spawn(work).unwrap().join().unwrap();
    assert!(norm.is_finite() && norm > 0.0);
}

/// Writes what `tests/fixtures/student/check_export.py` loads in `transformers` and `peft`.
#[test]
#[ignore = "writes to the folder that STUDENT_EXPORT names"]
fn an_export_for_other_programs() {
    let Ok(root) = std::env::var("STUDENT_EXPORT") else { return };
    for family in FAMILIES {
        let folder = PathBuf::from(&root).join(family);
        let network = adapted(family, 0.0, Kernels::Fused);
        let ids = ids(&reference(family, "reference.safetensors"));
        let of = |tensors| Weights { config: network.config().clone(), tensors };
        save(&folder.join("base"), &load(&fixtures(family), DType::F32, &Device::Cpu).unwrap()).unwrap();
        save(&folder.join("merged"), &of(network.merged_weights().unwrap())).unwrap();
        save_adapter(&folder.join("adapter"), &network, "base").unwrap();
        let length = ids.len() / 2;
        #[expect(clippy::cast_precision_loss, reason = "token ids are small")]
        let numbers: Vec<f32> = ids.iter().map(|id| *id as f32).collect();
        let own = BTreeMap::from([
            ("ids".to_owned(), Tensor::from_vec(numbers, (2, length), &Device::Cpu).unwrap()),
            ("logits".to_owned(), Tensor::from_vec(logits(&network, &ids), (2, length, 97), &Device::Cpu).unwrap()),
        ]);
        write_tensors(&folder.join("logits.safetensors"), &own, &[]).unwrap();
    }
}

/// A model as it is shipped: `STUDENT_GGUF` names the file of an instruction-tuned SmolLM2.
#[test]
fn a_shipped_gguf_speaks() {
    let Some(path) = std::env::var_os("STUDENT_GGUF") else { return };
    let weights = crate::student::weights::load_gguf(&PathBuf::from(path), DType::F32, &Device::Cpu).unwrap();
    assert_eq!((weights.config.parameters(), weights.config.rope_theta), (134_515_008, 1e5));
    let network = Network::new(weights.config, weights.tensors, BaseWeights::Frozen).unwrap();
    // Of shipped weights a text is far likelier than its words in another order.
    let ids: [u32; 8] = [504, 3575, 282, 4649, 314, 7042, 30, 198];
    let score = |ids: &[u32]| {
        let batch = PackedBatch::from_documents(&[vec![ids[..7].to_vec()]], 0).unwrap();
        network.loss(&batch, &Targets::new(ids[1..].to_vec(), vec![1.0 / 7.0; 7]).unwrap()).unwrap()
    };
    let mut turned = ids;
    turned.reverse();
    assert!(score(&ids) < 4.0 && score(&turned) > score(&ids) + 2.0, "{} {}", score(&ids), score(&turned));
}

#[test]
fn what_does_not_fit_is_an_error() {
    let (batch, _) = packed();
    let frozen = network("llama", BaseWeights::Frozen, Kernels::Fused);
    assert!(matches!(frozen.zero_gradients(), Err(NetworkError::NothingTrains)));
    let outside = Targets::new(vec![97; 16], vec![1.0; 16]).unwrap();
    assert!(matches!(frozen.loss(&batch, &outside), Err(NetworkError::Token { token: 97, vocabulary: 97 })));
    assert!(frozen.loss(&batch, &Targets::new(vec![1], vec![1.0]).unwrap()).is_err());
    assert!(
        frozen.loss(&batch, &Targets::new(vec![1; 16], vec![0.0; 16]).unwrap()).unwrap_err().to_string().contains("nothing to learn from")
    );
    for config in [
        AdapterConfig { rank: 0, ..adapter_config(0.0) },
        AdapterConfig { targets: BTreeSet::new(), ..adapter_config(0.0) },
        adapter_config(1.0),
        AdapterConfig { alpha: f64::NAN, ..adapter_config(0.0) },
    ] {
        let network = network("llama", BaseWeights::Frozen, Kernels::Fused);
        assert!(matches!(network.with_adapters(&config, &SeedTree::new(1)), Err(NetworkError::Adapters(_))));
    }
    let twice = adapted("llama", 0.0, Kernels::Fused).with_adapters(&adapter_config(0.0), &SeedTree::new(1));
    assert!(twice.unwrap_err().to_string().contains("merge them first"));
    assert_eq!(frozen.config().family, Family::Llama);
}
