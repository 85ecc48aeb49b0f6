//! A data set: samples with their ids, in memory and as a `.tokens` file.
//!
//! The file is in the safetensors format: `ids` (u32, all samples one after another), `ends` (u64, where each sample ends) and
//! `trained` (u8 per token: 0 where it
//! is not learnt, 1 and 2 by turns in the replies that are). What else there is to know stands as JSON in the metadata `harness-evo`.

use std::collections::HashMap;
use std::path::Path;

use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use serde::{Deserialize, Serialize};

use super::error::DataError;
use super::report::DatasetReport;
use super::sample::{Part, Sample};
use crate::base::write_whole;
use crate::harness::HarnessId;
use crate::student::{ChatCodec, StudentTokenizer};
use crate::task::{JobType, TaskId};

/// Name and version of the file format.
const FORMAT: &str = "harness-evo/tokens/1";
/// Where the JSON stands.
const METADATA: &str = "harness-evo";
/// Longest file that is read, in bytes: a billion tokens.
const LONGEST_FILE: u64 = 8 * 1024 * 1024 * 1024;

/// Samples and where they came from.
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    tokenizer: String,
    template: String,
    samples: Vec<Sample>,
    report: DatasetReport,
}

/// The metadata of the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct About {
    format: String,
    /// Hash of the tokenizer, and of the chat template.
    tokenizer: String,
    template: String,
    samples: Vec<AboutSample>,
    report: DatasetReport,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AboutSample {
    part: Part,
    task: TaskId,
    job_type: JobType,
    harness: HarnessId,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pictures: Vec<String>,
}

impl Dataset {
    pub(super) fn new(codec: &ChatCodec, samples: Vec<Sample>, report: DatasetReport) -> Self {
        let template = blake3::hash(codec.template().source().as_bytes()).to_string();
        Self { tokenizer: codec.tokenizer().hash().to_string(), template, samples, report }
    }

    /// All samples.
    #[must_use]
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// The samples of one part.
    pub fn part(&self, part: Part) -> impl Iterator<Item = &Sample> {
        self.samples.iter().filter(move |sample| sample.part == part)
    }

    /// What became of the episodes.
    #[must_use]
    pub const fn report(&self) -> &DatasetReport {
        &self.report
    }

    /// BLAKE3 of the chat template (hex).
    #[must_use]
    pub fn template_hash(&self) -> &str {
        &self.template
    }

    /// Refuses another tokenizer than the one the ids are of.
    ///
    /// # Errors
    /// [`DataError::OtherTokenizer`].
    pub fn check_tokenizer(&self, tokenizer: &StudentTokenizer) -> Result<(), DataError> {
        let model = tokenizer.hash().to_string();
        if self.tokenizer == model { Ok(()) } else { Err(DataError::OtherTokenizer { made: self.tokenizer.clone(), model }) }
    }

    /// Writes the file: first aside, then renamed. Equal data sets give equal bytes.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), DataError> {
        let wrong = |reason: String| DataError::Format { path: path.to_owned(), reason };
        let (mut ids, mut ends, mut trained) = (Vec::new(), Vec::new(), Vec::new());
        for sample in &self.samples {
            let start = trained.len();
            ids.extend(sample.ids.iter().flat_map(|id| id.to_le_bytes()));
            trained.resize(start + sample.ids.len(), 0_u8);
            for (flag, range) in [1, 2].iter().cycle().zip(&sample.trained) {
                if let Some(flags) = trained.get_mut(start + range.start..start + range.end) {
                    flags.fill(*flag);
                }
            }
            ends.extend((trained.len() as u64).to_le_bytes());
        }
        let about = |sample: &Sample| AboutSample {
            part: sample.part,
            task: sample.task,
            job_type: sample.job_type.clone(),
            harness: sample.harness,
            pictures: sample.pictures.clone(),
        };
        let about = About {
            format: FORMAT.to_owned(),
            tokenizer: self.tokenizer.clone(),
            template: self.template.clone(),
            samples: self.samples.iter().map(about).collect(),
            report: self.report.clone(),
        };
        let json = serde_json::to_string(&about).map_err(|error| wrong(error.to_string()))?;
        let view = |dtype, length, bytes| TensorView::new(dtype, vec![length], bytes).map_err(|error| wrong(error.to_string()));
        let tensors = [
            ("ends", view(Dtype::U64, self.samples.len(), &ends)?),
            ("ids", view(Dtype::U32, trained.len(), &ids)?),
            ("trained", view(Dtype::U8, trained.len(), &trained)?),
        ];
        let metadata = HashMap::from([(METADATA.to_owned(), json)]);
        let bytes = safetensors::serialize(tensors, Some(metadata)).map_err(|error| wrong(error.to_string()))?;
        write_whole(path, &bytes).map_err(|source| DataError::Io { path: path.to_owned(), source })
    }

    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read, or is not whole.
    pub fn load(path: &Path) -> Result<Self, DataError> {
        let failed = |source| DataError::Io { path: path.to_owned(), source };
        let bytes = std::fs::metadata(path).map_err(failed)?.len();
        if bytes > LONGEST_FILE {
            return Err(failed(std::io::Error::other(format!("{bytes} bytes; at most {LONGEST_FILE} are read"))));
        }
        let bytes = std::fs::read(path).map_err(failed)?;
        read(&bytes).map_err(|reason| DataError::Format { path: path.to_owned(), reason })
    }
}

fn read(bytes: &[u8]) -> Result<Dataset, String> {
    let text = |error: safetensors::SafeTensorError| error.to_string();
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(text)?;
    let json = header.metadata().as_ref().and_then(|metadata| metadata.get(METADATA)).ok_or("not a data set of token ids")?;
    let about: About = serde_json::from_str(json).map_err(|error| format!("its metadata: {error}"))?;
    if about.format != FORMAT {
        return Err(format!("the format is `{}`, this version reads `{FORMAT}`", about.format));
    }
    let tensors = SafeTensors::deserialize(bytes).map_err(text)?;
    let data = |name: &str, dtype: Dtype| match tensors.tensor(name) {
        Ok(tensor) if tensor.dtype() == dtype => Ok(tensor.data()),
        Ok(tensor) => Err(format!("`{name}` holds {:?}", tensor.dtype())),
        Err(error) => Err(text(error)),
    };
    let (ids, _) = data("ids", Dtype::U32)?.as_chunks::<4>();
    let (ends, _) = data("ends", Dtype::U64)?.as_chunks::<8>();
    let trained = data("trained", Dtype::U8)?;
    if ends.len() != about.samples.len() || ids.len() != trained.len() {
        return Err("its parts have different lengths".to_owned());
    }
    let mut samples = Vec::with_capacity(ends.len());
    let mut start = 0;
    for (end, about) in ends.iter().zip(about.samples) {
        let end = usize::try_from(u64::from_le_bytes(*end)).ok().filter(|end| (start..=ids.len()).contains(end));
        let end = end.ok_or("the ends of its samples are not in order")?;
        samples.push(Sample {
            ids: ids[start..end].iter().map(|id| u32::from_le_bytes(*id)).collect(),
            trained: ranges(&trained[start..end]),
            part: about.part,
            task: about.task,
            job_type: about.job_type,
            harness: about.harness,
            pictures: about.pictures,
        });
        start = end;
    }
    if start != ids.len() {
        return Err("tokens follow the last sample".to_owned());
    }
    Ok(Dataset { tokenizer: about.tokenizer, template: about.template, samples, report: about.report })
}

/// The runs of equal flags, those of 0 left out.
fn ranges(flags: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut ranges: Vec<std::ops::Range<usize>> = Vec::new();
    for (index, flag) in flags.iter().enumerate().filter(|(_, flag)| **flag != 0) {
        match ranges.last_mut() {
            Some(last) if last.end == index && flags[last.start] == *flag => last.end += 1,
            _ => ranges.push(index..index + 1),
        }
    }
    ranges
}
