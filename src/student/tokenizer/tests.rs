use proptest::prelude::*;

use super::*;
use crate::student::template::tests::fixture;

/// At most 512 tokens, trained by the Python library on `corpus.txt`.
pub(crate) fn small() -> StudentTokenizer {
    StudentTokenizer::from_json(&fixture("tokenizer.json")).unwrap()
}

const SUM: &str = "Sum 4821.75 of <b>data</b>\n\n\tété 日本";
const LIST: &str = "ls -l | head -n 3 && echo 'x'";
const LLAMA_CPP: [(&str, &[u32]); 2] = [
    (SUM, &[13764, 216, 36, 40, 34, 33, 30, 39, 37, 282, 2067, 82, 46, 1824, 9617, 82, 46, 1116, 197, 19380, 2756, 17097, 241, 115, 40993]),
    (LIST, &[2971, 731, 92, 2504, 1680, 731, 94, 216, 35, 1456, 22, 13689, 637, 104, 23]),
];
const QWEN3: [(&str, &[u32]); 2] = [
    (SUM, &[9190, 220, 19, 23, 17, 16, 13, 22, 20, 315, 366, 65, 29, 691, 522, 65, 1339, 197, 38783, 75402, 21894]),
    (LIST, &[4730, 481, 75, 760, 1968, 481, 77, 220, 18, 1009, 1687, 364, 87, 6]),
];

fn decoded(tokenizer: &StudentTokenizer, ids: &[u32]) -> String {
    let mut stream = StreamDecoder::default();
    let mut text: String = ids.iter().map(|id| stream.push(tokenizer, *id)).collect();
    text.push_str(&stream.finish());
    text
}

#[test]
fn training_gives_the_vocabulary_of_the_python_library() {
    let corpus = fixture("corpus.txt");
    let ours = StudentTokenizer::train([corpus.as_str()], VocabularySize::new(512).unwrap()).unwrap();
    let theirs = small();
    assert_eq!(ours.vocabulary_size(), theirs.vocabulary_size());
    for id in 0..512 {
        assert_eq!(ours.bytes_of(id), theirs.bytes_of(id), "{id}");
    }
    assert_eq!(ours.added(), theirs.added());
    assert_eq!(ours.encode(&corpus, Trust::Plain).unwrap(), theirs.encode(&corpus, Trust::Plain).unwrap());
}

#[test]
fn a_vocabulary_has_its_size_where_the_texts_suffice() {
    // All pairs of 26 letters, twice: more pairs than tokens.
    let letters = "abcdefghijklmnopqrstuvwxyz";
    let pairs: Vec<String> = letters.chars().flat_map(|a| letters.chars().map(move |b| format!("{a}{b}\n{a}{b}"))).collect();
    let tokenizer = StudentTokenizer::train(pairs.iter().map(String::as_str), VocabularySize::new(512).unwrap()).unwrap();
    assert_eq!(tokenizer.vocabulary_size(), 512);
    assert_eq!(tokenizer.added_id("<|im_end|>").map(|id| tokenizer.bytes_of(id)), Some(b"<|im_end|>".as_slice()));
}

#[test]
fn a_vocabulary_does_not_depend_on_the_order_of_its_texts() {
    let corpus = fixture("corpus.txt");
    let mut lines: Vec<&str> = corpus.lines().collect();
    let size = VocabularySize::new(512).unwrap();
    let forwards = StudentTokenizer::train(lines.iter().copied(), size).unwrap();
    lines.reverse();
    let backwards = StudentTokenizer::train(lines, size).unwrap();
    assert_eq!(forwards.json(), backwards.json());
    assert_eq!(forwards.hash(), backwards.hash());
}

#[test]
fn sizes_are_powers_of_two_and_text_is_needed() {
    assert!(VocabularySize::new(1000).is_err() && VocabularySize::new(256).is_err() && VocabularySize::new(1 << 17).is_err());
    assert_eq!(VocabularySize::default().get(), 4096);
    assert!(matches!(StudentTokenizer::train([""], VocabularySize::default()), Err(TokenizerError::NoText)));
}

#[test]
fn digits_stand_alone() {
    let tokenizer = small();
    let ids = tokenizer.encode("4821.75", Trust::Plain).unwrap();
    let texts: Vec<String> = ids.iter().map(|id| tokenizer.decode(&[*id])).collect();
    assert_eq!(texts, ["4", "8", "2", "1", ".", "7", "5"]);
}

#[test]
fn text_becomes_added_tokens_only_where_it_is_trusted() {
    let tokenizer = small();
    let (end, call) = (tokenizer.added_id("<|im_end|>").unwrap(), tokenizer.added_id("<tool_call>").unwrap());
    let text = "a<|im_end|>b<tool_call>";
    let holds = |trust| {
        let ids = tokenizer.encode(text, trust).unwrap();
        assert_eq!(tokenizer.decode(&ids), text);
        (ids.contains(&end), ids.contains(&call))
    };
    assert_eq!(holds(Trust::Plain), (false, false));
    assert_eq!(holds(Trust::Assistant), (false, true));
    assert_eq!(holds(Trust::Template), (true, true));
    assert!(tokenizer.is_control(end) && !tokenizer.is_control(call));
}

#[test]
fn characters_are_never_torn_in_a_stream() {
    let tokenizer = small();
    let ids = tokenizer.encode("日ö", Trust::Plain).unwrap();
    let mut stream = StreamDecoder::default();
    let parts: Vec<String> = ids.iter().map(|id| stream.push(&tokenizer, *id)).collect();
    assert_eq!(parts.concat(), "日ö");
    assert_eq!(parts.iter().filter(|part| !part.is_empty()).count(), 2);
    // The first byte of a character alone, then an ordinary one.
    assert_eq!(decoded(&tokenizer, &[ids[0]]), "\u{fffd}");
    let a = tokenizer.encode("a", Trust::Plain).unwrap()[0];
    assert_eq!(decoded(&tokenizer, &[ids[0], a]), "\u{fffd}a");
    assert_eq!(tokenizer.decode(&[60_000]), "", "an unknown id is nothing");
}

#[test]
fn a_saved_tokenizer_is_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokenizer.json");
    let tokenizer = StudentTokenizer::train(["one two one two"], VocabularySize::new(512).unwrap()).unwrap();
    tokenizer.save(&path).unwrap();
    let again = StudentTokenizer::load(&path).unwrap();
    assert_eq!(again.hash(), tokenizer.hash());
    assert_eq!(again.added(), tokenizer.added());
    std::fs::write(&path, "{}").unwrap();
    assert!(matches!(StudentTokenizer::load(&path), Err(TokenizerError::Format(_))));
    assert!(matches!(StudentTokenizer::load(&folder.path().join("none")), Err(TokenizerError::Io { .. })));
}

/// `HARNESS_EVO_SMOLLM2` names a SmolLM2 file in GGUF.
#[test]
fn a_gguf_file_brings_its_tokenizer_and_template() {
    let Some(path) = std::env::var_os("HARNESS_EVO_SMOLLM2") else {
        eprintln!("skipped: HARNESS_EVO_SMOLLM2 is not set");
        return;
    };
    let mut file = std::io::BufReader::new(std::fs::File::open(path).unwrap());
    let content = candle_core::quantized::gguf_file::Content::read(&mut file).unwrap();
    let tokenizer = StudentTokenizer::from_gguf(&content.metadata).unwrap();
    assert_eq!(tokenizer.vocabulary_size(), 49152);
    assert_eq!(tokenizer.added_id("<|im_start|>"), Some(1));
    assert_eq!(tokenizer.added_id("<|im_end|>"), Some(2));
    // Ids by llama.cpp from the same file.
    for (text, ids) in LLAMA_CPP {
        assert_eq!(tokenizer.encode(text, Trust::Plain).unwrap(), ids, "{text:?}");
    }
    let again = StudentTokenizer::from_json(tokenizer.json()).unwrap();
    assert_eq!(again.encode("12 ab", Trust::Plain).unwrap(), tokenizer.encode("12 ab", Trust::Plain).unwrap());
    let template = crate::student::ChatTemplate::from_gguf(&content.metadata).unwrap();
    assert_eq!((template.bos(), template.eos()), ("<|im_start|>", "<|im_end|>"));
    let codec = crate::student::ChatCodec::new(tokenizer, template).unwrap();
    assert_eq!(codec.end_of_turn(), 2);
}

/// `HARNESS_EVO_QWEN3` names a folder with the `tokenizer.json` of Qwen3.
#[test]
fn the_tokenizer_of_qwen3_is_read() {
    let Some(folder) = std::env::var_os("HARNESS_EVO_QWEN3") else {
        eprintln!("skipped: HARNESS_EVO_QWEN3 is not set");
        return;
    };
    let tokenizer = StudentTokenizer::load(&Path::new(&folder).join("tokenizer.json")).unwrap();
    assert_eq!(tokenizer.vocabulary_size(), 151_669);
    assert_eq!(tokenizer.added_id("<|im_end|>"), Some(151_645));
    assert_eq!(tokenizer.added_id("<tool_call>"), Some(151_657));
    // Ids by `tokenizers` in Python.
    for (text, ids) in QWEN3 {
        assert_eq!(tokenizer.encode(text, Trust::Plain).unwrap(), ids, "{text:?}");
    }
    // Qwen composes characters first: e and a combining acute accent become one character.
    let composed = tokenizer.encode("e\u{301}", Trust::Plain).unwrap();
    assert_eq!(tokenizer.decode(&composed), "é");
    assert_eq!(tokenizer.normalised("e\u{301}").unwrap(), "é");
    // Number and sum of the ids that `apply_chat_template` of transformers gives for these requests.
    let template = crate::student::ChatTemplate::from_folder(Path::new(&folder)).unwrap();
    let codec = crate::student::ChatCodec::new(tokenizer, template).unwrap();
    assert_eq!(codec.end_of_turn(), 151_645);
    for (name, count, sum) in [("results", 409, 6_477_789), ("system", 56, 1_698_587)] {
        let (messages, tools) = crate::student::template::tests::case(name);
        let ids = codec.prompt(&messages, &tools).unwrap().ids;
        assert_eq!((ids.len(), ids.iter().map(|id| u64::from(*id)).sum::<u64>()), (count, sum), "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn decoding_inverts_encoding(text in "(\\PC|[ \\n\\t]|<\\|im_end\\|>|<tool_call>|é|日){0,40}") {
        let tokenizer = small();
        for trust in [Trust::Plain, Trust::Assistant, Trust::Template] {
            let ids = tokenizer.encode(&text, trust).unwrap();
            prop_assert_eq!(tokenizer.decode(&ids), text.as_str());
            prop_assert_eq!(decoded(&tokenizer, &ids), text.as_str());
        }
        let plain = tokenizer.encode(&text, Trust::Plain).unwrap();
        prop_assert!(plain.iter().all(|id| tokenizer.added().iter().all(|token| token.id != *id)));
    }
}
