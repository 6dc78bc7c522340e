//! Properties of a tiny vocabulary, and hostile metadata.

use std::path::Path;

use proptest::prelude::*;
use unicode_normalization::UnicodeNormalization;

use crate::gguf::{Gguf, GgufWriter, Value};

use super::*;

/// A description of a small tokenizer, to be spoiled in one place by each test.
#[derive(Clone)]
struct Tiny {
    model: &'static str,
    pre: Option<&'static str>,
    tokens: Vec<String>,
    kinds: Option<Vec<i32>>,
    merges: Vec<String>,
    ids: Vec<(&'static str, u32)>,
    add_bos: Option<bool>,
}

impl Tiny {
    /// All bytes, some merges, and `<|im_start|>`, `<|im_end|>` (control), `<tool>` (user-defined).
    fn new(pre: &'static str) -> Self {
        let mut tokens: Vec<String> = byte_alphabet::alphabet().map(String::from).into();
        let merges = ["h e", "l l", "he ll", "hell o", "\u{120} w", "\u{c3} \u{a9}", "< |", "i m"];
        tokens.extend(merges.map(|merge| merge.replace(' ', "")));
        let mut kinds = vec![1; tokens.len()];
        tokens.extend(["<|im_start|>", "<|im_end|>", "<tool>"].map(String::from));
        kinds.extend([3, 3, 4]);
        let bos = tokens.len() as u32 - 3;
        Self {
            model: "gpt2",
            pre: Some(pre),
            tokens,
            kinds: Some(kinds),
            merges: merges.map(String::from).into(),
            ids: vec![("tokenizer.ggml.bos_token_id", bos)],
            add_bos: None,
        }
    }

    fn writer(&self) -> GgufWriter {
        let mut writer = GgufWriter::new();
        writer.kv("tokenizer.ggml.model", self.model);
        if let Some(pre) = self.pre {
            writer.kv("tokenizer.ggml.pre", pre);
        }
        writer.strings("tokenizer.ggml.tokens", &self.tokens);
        if let Some(kinds) = &self.kinds {
            writer.i32s("tokenizer.ggml.token_type", kinds);
        }
        writer.strings("tokenizer.ggml.merges", &self.merges);
        for &(key, id) in &self.ids {
            writer.kv(key, id);
        }
        if let Some(add_bos) = self.add_bos {
            writer.kv("tokenizer.ggml.add_bos_token", add_bos);
        }
        writer
    }

    fn id(&self, text: &str) -> u32 {
        self.tokens.iter().position(|token| token == text).unwrap() as u32
    }

    fn load(&self) -> Result<Tokenizer, TokenizerError> {
        load(&self.writer())
    }

    /// The error, after checking what every message promises.
    fn error(&self) -> TokenizerError {
        let error = self.load().expect_err("spoiled metadata must be refused");
        let message = error.to_string();
        assert!(message.starts_with("tiny.gguf: ") && !message.contains('\n'), "{message}");
        error
    }
}

fn load(writer: &GgufWriter) -> Result<Tokenizer, TokenizerError> {
    let bytes = writer.finish().unwrap();
    Tokenizer::from_gguf(&Gguf::parse(&bytes, Path::new("tiny.gguf")).unwrap())
}

const FAMILIES: [&str; 4] = ["gpt-2", "smollm", "llama-bpe", "qwen2"];

#[test]
fn merges_and_byte_fallback() {
    let tiny = Tiny::new("gpt-2");
    let tokenizer = tiny.load().unwrap();
    let expected = [tiny.id("hello"), tiny.id("\u{120}w"), tiny.id("\u{c3}\u{a9}"), tiny.id("!")];
    assert_eq!(tokenizer.encode("hello w\u{e9}!", Specials::Ignore).unwrap(), expected);
}

#[test]
fn whole_piece_beats_merges_only_for_llama_3() {
    for pre in FAMILIES {
        let mut tiny = Tiny::new(pre);
        tiny.tokens.push("xyz".into());
        tiny.kinds.as_mut().unwrap().push(1);
        let ids = tiny.load().unwrap().encode("xyz", Specials::Ignore).unwrap();
        let bytes = ["x", "y", "z"].map(|text| tiny.id(text));
        if pre == "llama-bpe" {
            assert_eq!(ids, [tiny.id("xyz")]);
        } else {
            assert_eq!(ids, bytes);
        }
    }
}

#[test]
fn specials_parse_only_when_asked() {
    let tiny = Tiny::new("smollm");
    let tokenizer = tiny.load().unwrap();
    let text = "<|im_start|>hello<tool><|im_end|>";
    let parsed = tokenizer.encode(text, Specials::Parse).unwrap();
    assert_eq!(parsed, ["<|im_start|>", "hello", "<tool>", "<|im_end|>"].map(|text| tiny.id(text)));
    assert_eq!(tokenizer.special_id("<|im_end|>"), Some(tiny.id("<|im_end|>")));
    assert_eq!(tokenizer.special_id("hello"), None);
    let ignored = tokenizer.encode(text, Specials::Ignore).unwrap();
    assert!(ignored.iter().all(|&id| tokenizer.token_kind(id) == Some(TokenKind::Normal)));
}

#[test]
fn longest_of_two_specials_at_one_place_wins() {
    let mut tiny = Tiny::new("gpt-2");
    tiny.tokens.extend(["<|a".into(), "<|a|>".into()]);
    tiny.kinds.as_mut().unwrap().extend([3, 3]);
    let ids = tiny.load().unwrap().encode("<|a|><|a", Specials::Parse).unwrap();
    assert_eq!(ids, [tiny.id("<|a|>"), tiny.id("<|a")]);
}

#[test]
fn an_empty_token_text_matches_nothing() {
    let mut tiny = Tiny::new("gpt-2");
    tiny.tokens.push(String::new());
    tiny.kinds.as_mut().unwrap().push(3);
    assert_eq!(tiny.load().unwrap().encode("hello", Specials::Parse).unwrap(), [tiny.id("hello")]);
}

#[test]
fn stop_set_joins_metadata_and_known_texts() {
    let mut tiny = Tiny::new("gpt-2");
    tiny.tokens.extend(["<|endoftext|>".into(), "<|eom_id|>".into(), "[END]".into()]);
    tiny.kinds.as_mut().unwrap().extend([3, 3, 3]);
    tiny.ids.push(("tokenizer.ggml.eos_token_id", tiny.id("[END]")));
    let tokenizer = tiny.load().unwrap();
    let stops = ["<|im_end|>", "<|endoftext|>", "<|eom_id|>", "[END]"].map(|text| tiny.id(text));
    assert_eq!(tokenizer.stop_ids(), stops);
    assert_eq!(tokenizer.bos(), Some(tiny.id("<|im_start|>")));
    assert_eq!(tokenizer.eos(), Some(tiny.id("[END]")));
    assert_eq!(tokenizer.eot(), Some(tiny.id("<|im_end|>")));
    assert_eq!(tokenizer.eom(), Some(tiny.id("<|eom_id|>")));
    assert!(tokenizer.is_stop(tiny.id("[END]")) && !tokenizer.is_stop(0));
}

#[test]
fn add_bos_follows_metadata_then_family() {
    for pre in FAMILIES {
        for add_bos in [None, Some(false), Some(true)] {
            let tokenizer = Tiny { add_bos, ..Tiny::new(pre) }.load().unwrap();
            assert_eq!(tokenizer.add_bos(), add_bos.unwrap_or(pre == "llama-bpe"));
        }
    }
}

/// Qwen2's text is brought into normalization form C; special tokens are found before that, and what follows one is composed
/// for itself.
#[test]
fn text_is_composed_where_the_family_does_it() {
    let (apart, composed) = ("e\u{301}", "\u{e9}");
    for (pre, composes) in [
        ("qwen2", true),
        ("gpt-2", false),
        ("smollm", false),
        ("llama-bpe", false),
        ("deepseek-r1-qwen", false),
    ] {
        let tokenizer = Tiny::new(pre).load().unwrap();
        let encode = |text: &str| tokenizer.encode(text, Specials::Parse).unwrap();
        assert_eq!(encode(apart) == encode(composed), composes, "{pre}");
        assert_eq!(tokenizer.decode_lossy(&encode(apart)), if composes { composed } else { apart });
        // U+0338 would make one character of it and the ">" before it.
        assert_eq!(tokenizer.decode_lossy(&encode("<|im_end|>\u{338}")), "<|im_end|>\u{338}");
        assert_eq!(
            tokenizer.decode_lossy(&encode(">\u{338}")),
            if composes { "\u{226f}" } else { ">\u{338}" }
        );
    }
    for composes in [false, true] {
        let mut writer = Tiny::new("qwen2").writer();
        writer.kv("fura.nfc", composes);
        let tokenizer = load(&writer).unwrap();
        let ids = tokenizer.encode(apart, Specials::Ignore).unwrap();
        assert_eq!(tokenizer.decode_lossy(&ids), if composes { composed } else { apart });
    }
}

#[test]
fn end_tokens_are_control_even_in_a_file_without_kinds() {
    let tiny = Tiny { kinds: None, ..Tiny::new("gpt-2") };
    let tokenizer = tiny.load().unwrap();
    assert!(tokenizer.is_control(tiny.id("<|im_end|>")));
    assert!(!tokenizer.is_control(tiny.id("hello")));
}

#[test]
fn missing_bytes_are_listed_left_out_and_separate_their_neighbours() {
    let mut tiny = Tiny::new("gpt-2");
    let dropped = tiny.id("\u{104}") as usize;
    tiny.tokens[dropped] = "[gone]".into();
    let tokenizer = tiny.load().unwrap();
    assert_eq!(tokenizer.missing_bytes().collect::<Vec<_>>(), [4]);
    let ids = tokenizer.encode("[\u{4}]", Specials::Ignore).unwrap();
    assert_eq!(ids, [tiny.id("["), tiny.id("]")]);
    let mut merging = tiny.clone();
    merging.merges.push("[ ]".into());
    merging.tokens.push("[]".into());
    merging.kinds.as_mut().unwrap().push(1);
    assert_eq!(merging.load().unwrap().encode("[\u{4}]", Specials::Ignore).unwrap(), ids);
    assert_eq!(merging.load().unwrap().encode("[]", Specials::Ignore).unwrap(), [merging.id("[]")]);
}

#[test]
fn ids_outside_the_vocabulary_decode_to_the_replacement_character() {
    let tokenizer = Tiny::new("gpt-2").load().unwrap();
    assert_eq!(tokenizer.decode_lossy(&[u32::MAX, tokenizer.vocabulary_size() as u32]), "\u{fffd}\u{fffd}");
}

#[test]
fn a_megabyte_of_one_letter_encodes() {
    let mut tiny = Tiny::new("qwen2");
    tiny.tokens.push("aa".into());
    tiny.kinds.as_mut().unwrap().push(1);
    tiny.merges.push("a a".into());
    let ids = tiny.load().unwrap().encode(&"a".repeat(1 << 20), Specials::Ignore).unwrap();
    assert_eq!(ids, vec![tiny.id("aa"); 1 << 19]);
}

#[test]
fn a_megabyte_of_white_space_encodes() {
    for pre in FAMILIES {
        let tokenizer = Tiny::new(pre).load().unwrap();
        for text in [" ".repeat(1 << 20) + "x", "\n ".repeat(1 << 19) + "x"] {
            let ids = tokenizer.encode(&text, Specials::Ignore).unwrap();
            assert_eq!(tokenizer.decode(&ids), text.as_bytes());
        }
    }
}

#[test]
fn unknown_model() {
    let tiny = Tiny { model: "t5", ..Tiny::new("gpt-2") };
    assert!(matches!(tiny.error(), TokenizerError::Model { found, .. } if found == "t5"));
}

/// A SentencePiece vocabulary: bytes, letters, some words, a user-defined and control tokens.
fn pieces(spoil: impl FnOnce(&mut Vec<String>, &mut Vec<f32>, &mut Vec<i32>)) -> GgufWriter {
    let mut tokens: Vec<String> = ["<unk>", "<s>", "</s>", "<tag>", "<|user|>"].map(String::from).into();
    let mut kinds = vec![2, 3, 3, 4, 4];
    tokens.extend((0..=255).map(|b| format!("<0x{b:02X}>")));
    kinds.extend([6; 256]);
    let words = ["\u{2581}", "a", "b", "s", "<", ">", "/", "\u{2581}a", "ab", "</", "s>"];
    tokens.extend(words.map(String::from));
    kinds.extend([1; 11]);
    let mut scores: Vec<f32> = (0..tokens.len()).map(|i| -(i as f32)).collect();
    spoil(&mut tokens, &mut scores, &mut kinds);
    let mut writer = GgufWriter::new();
    writer
        .kv("tokenizer.ggml.model", "llama")
        .strings("tokenizer.ggml.tokens", &tokens)
        .f32s("tokenizer.ggml.scores", &scores)
        .i32s("tokenizer.ggml.token_type", &kinds)
        .kv("tokenizer.ggml.bos_token_id", 1_u32)
        .kv("tokenizer.ggml.eos_token_id", 2_u32)
        .kv("tokenizer.ggml.unknown_token_id", 0_u32);
    writer
}

#[test]
fn pieces_join_by_score_after_a_space_and_the_rest_becomes_bytes() {
    let tokenizer = load(&pieces(|_, _, _| ())).unwrap();
    let encode = |text: &str| tokenizer.encode(text, Specials::Ignore).unwrap();
    let id = |text: &str| {
        (0..tokenizer.vocabulary_size() as u32)
            .rfind(|i| tokenizer.token_bytes(*i) == Some(text.as_bytes()))
            .unwrap()
    };
    // " a" has a better score than "ab".
    assert_eq!(encode("ab"), [id(" a"), id("b")]);
    assert_eq!(encode("bab"), [id(" "), id("b"), id("ab")]);
    assert_eq!(encode("a\u{e9}"), [id(" a"), 5 + 0xc3, 5 + 0xa9]);
    assert!(encode("").is_empty());
    assert_eq!(tokenizer.decode_lossy(&encode("a\u{e9} b")), " a\u{e9} b");
    assert!(tokenizer.add_bos() && tokenizer.pre_tokenizer().is_none());
    assert_eq!(tokenizer.missing_bytes().count(), 0);
}

#[test]
fn text_never_becomes_a_control_token_of_a_piece_vocabulary() {
    let tokenizer = load(&pieces(|_, _, _| ())).unwrap();
    // "</" and "s>" are pieces, and together the text of a control token.
    let ids = tokenizer.encode("<s></s><|user|><unk><0x41>", Specials::Ignore).unwrap();
    assert!(ids.iter().all(|id| !tokenizer.is_control(*id) && *id != 0), "{ids:?}");
    // The file calls it user-defined, which would be found in any text.
    assert!(tokenizer.is_control(4));
    assert_eq!(tokenizer.encode("a<tag>", Specials::Ignore).unwrap().last(), Some(&3));
    assert_eq!(tokenizer.encode("a</s>", Specials::Parse).unwrap().last(), Some(&2));
}

#[test]
fn spoiled_piece_vocabularies_are_refused() {
    let error = |writer: &GgufWriter| load(writer).unwrap_err();
    let e = error(&pieces(|_, scores, _| scores.truncate(7)));
    assert!(matches!(e, TokenizerError::ScoreCount { .. }), "{e}");
    let e = error(&pieces(|_, scores, _| scores[7] = f32::NAN));
    assert!(matches!(e, TokenizerError::Score { id: 7, .. }), "{e}");
    let e = error(&pieces(|tokens, _, _| tokens[10] = "<0xZZ>".to_owned()));
    assert!(matches!(e, TokenizerError::ByteToken { id: 10, .. }), "{e}");
    let mut writer = pieces(|_, _, _| ());
    writer.kv("tokenizer.ggml.remove_extra_whitespaces", true);
    assert!(matches!(error(&writer), TokenizerError::Normalization { .. }));
    let mut writer = GgufWriter::new();
    writer.kv("tokenizer.ggml.model", "llama").strings("tokenizer.ggml.tokens", &["a", "b"]);
    writer.i32s("tokenizer.ggml.scores", &[1, 2]);
    let e = error(&writer);
    assert!(e.to_string().contains("must be array of f32"), "{e}");
}

proptest! {
    #[test]
    fn piece_decode_inverts_encode(text in any::<String>()) {
        let tokenizer = load(&pieces(|_, _, _| ())).unwrap();
        let ids = tokenizer.encode(&text, Specials::Ignore).unwrap();
        prop_assert!(ids.iter().all(|id| !tokenizer.is_control(*id)));
        // A space comes first, and after a user-defined token.
        let expected = text.replace('\u{2581}', " ").replace("<tag>", "<tag> ");
        let expected = if text.is_empty() { expected } else { format!(" {expected}") };
        let got = tokenizer.decode_lossy(&ids);
        prop_assert_eq!(got.replace("<tag> ", "<tag>"), expected.replace("<tag> ", "<tag>"));
    }
}

#[test]
fn missing_pre() {
    let tiny = Tiny { pre: None, ..Tiny::new("gpt-2") };
    let error = tiny.error();
    assert!(matches!(error, TokenizerError::MissingPre { .. }));
    assert!(error.to_string().contains("smollm"));
    let bytes = tiny.writer().finish().unwrap();
    let gguf = Gguf::parse(&bytes, Path::new("tiny.gguf")).unwrap();
    let tokenizer = Tokenizer::with_pre_tokenizer(&gguf, PreTokenizer::Qwen2).unwrap();
    assert_eq!(tokenizer.pre_tokenizer(), Some(PreTokenizer::Qwen2));
}

#[test]
fn unknown_pre_is_named() {
    for pre in ["default", "deep\nseek"] {
        let error = Tiny { pre: Some(pre), ..Tiny::new("gpt-2") }.error();
        assert!(matches!(error, TokenizerError::UnknownPre { .. }));
        assert!(error.to_string().contains(&pre.escape_debug().to_string()));
    }
}

#[test]
fn missing_keys_are_named() {
    let writer = GgufWriter::new();
    assert!(load(&writer).unwrap_err().to_string().contains("tokenizer.ggml.model"));
    let mut writer = GgufWriter::new();
    writer.kv("tokenizer.ggml.model", "gpt2");
    assert!(load(&writer).unwrap_err().to_string().contains("tokenizer.ggml.pre"));
    writer.kv("tokenizer.ggml.pre", "gpt-2");
    assert!(load(&writer).unwrap_err().to_string().contains("tokenizer.ggml.tokens"));
    writer.strings("tokenizer.ggml.tokens", &["a"]);
    assert!(load(&writer).unwrap_err().to_string().contains("tokenizer.ggml.merges"));
}

#[test]
fn no_tokens() {
    let tiny = Tiny { tokens: vec![], kinds: None, merges: vec![], ids: vec![], ..Tiny::new("gpt-2") };
    assert!(matches!(tiny.error(), TokenizerError::TokenCount { count: 0, .. }));
}

#[test]
fn no_byte_tokens() {
    let tokens = vec!["ab".into(), "cd".into()];
    let tiny = Tiny { tokens, kinds: None, merges: vec![], ids: vec![], ..Tiny::new("gpt-2") };
    assert!(matches!(tiny.error(), TokenizerError::NoBytes { .. }));
}

#[test]
fn duplicate_token() {
    let mut tiny = Tiny::new("gpt-2");
    tiny.tokens[7] = tiny.tokens[3].clone();
    assert!(matches!(tiny.error(), TokenizerError::DuplicateToken { id: 7, first: 3, .. }));
}

#[test]
fn token_that_is_not_utf8() {
    let mut writer = GgufWriter::new();
    writer
        .kv("tokenizer.ggml.model", "gpt2")
        .kv("tokenizer.ggml.pre", "gpt-2")
        .strings("tokenizer.ggml.tokens", &[b"a".as_slice(), b"\xff"])
        .strings::<&str>("tokenizer.ggml.merges", &[]);
    assert!(matches!(load(&writer), Err(TokenizerError::TokenUtf8 { id: 1, .. })));
}

#[test]
fn token_types_of_another_length() {
    for change in [Vec::pop as fn(&mut Vec<i32>) -> Option<i32>, |kinds| {
        kinds.push(1);
        None
    }] {
        let mut tiny = Tiny::new("gpt-2");
        change(tiny.kinds.as_mut().unwrap());
        assert!(matches!(tiny.error(), TokenizerError::KindCount { .. }));
    }
}

#[test]
fn token_types_stored_as_another_type() {
    let tiny = Tiny { kinds: None, ..Tiny::new("gpt-2") };
    let mut writer = tiny.writer();
    writer.strings("tokenizer.ggml.token_type", &vec!["1"; tiny.tokens.len()]);
    let error = load(&writer).unwrap_err().to_string();
    assert!(error.contains("token_type") && error.contains("must be array of i32"), "{error}");
}

/// As many elements, of a narrower type: who does not look at the type reads past their end.
#[test]
fn scores_and_kinds_of_bytes() {
    for key in ["tokenizer.ggml.scores", "tokenizer.ggml.token_type"] {
        let mut bytes = pieces(|_, _, _| ()).finish().unwrap();
        let start = bytes.windows(key.len()).position(|w| w == key.as_bytes()).unwrap() + key.len();
        // Type of the value, type of its elements, their number.
        let (kind, data) = (start + 4, start + 16);
        let count = u64::from_le_bytes(bytes[start + 8..data].try_into().unwrap()) as usize;
        bytes[kind] = 0;
        bytes.drain(data + count..data + 4 * count);
        let gguf = Gguf::parse(&bytes, Path::new("tiny.gguf")).unwrap();
        let error = Tokenizer::from_gguf(&gguf).unwrap_err().to_string();
        assert!(error.contains(key) && error.contains("must be array of"), "{error}");
    }
}

#[test]
fn undefined_token_type() {
    for code in [-1, 7, i32::MAX] {
        let mut tiny = Tiny::new("gpt-2");
        tiny.kinds.as_mut().unwrap()[9] = code;
        match tiny.error() {
            TokenizerError::Kind { id: 9, found, .. } => assert_eq!(found, code),
            other => panic!("{other}"),
        }
    }
}

#[test]
fn special_id_out_of_range() {
    for key in ["bos", "eos", "eot", "eom"] {
        let key: &'static str = match key {
            "bos" => "tokenizer.ggml.bos_token_id",
            "eos" => "tokenizer.ggml.eos_token_id",
            "eot" => "tokenizer.ggml.eot_token_id",
            _ => "tokenizer.ggml.eom_token_id",
        };
        let mut tiny = Tiny::new("gpt-2");
        for id in [tiny.tokens.len() as u32, u32::MAX] {
            tiny.ids = vec![(key, id)];
            let error = tiny.error();
            assert!(matches!(error, TokenizerError::IdRange { .. }));
            assert!(error.to_string().contains(key));
        }
    }
}

#[test]
fn special_id_of_the_wrong_type() {
    let mut writer = Tiny::new("gpt-2").writer();
    writer.kv("tokenizer.ggml.eos_token_id", Value::I32(-1));
    assert!(load(&writer).unwrap_err().to_string().contains("must be u32"));
}

#[test]
fn bos_asked_for_but_not_named() {
    let tiny = Tiny { ids: vec![], add_bos: Some(true), ..Tiny::new("gpt-2") };
    assert!(matches!(tiny.error(), TokenizerError::MissingBos { .. }));
}

#[test]
fn merge_without_two_halves() {
    for merge in ["", "ab", " ab", "ab ", " "] {
        let mut tiny = Tiny::new("gpt-2");
        tiny.merges.push(merge.into());
        assert!(matches!(tiny.error(), TokenizerError::MergeForm { index: 8, .. }), "{merge:?}");
    }
}

#[test]
fn merge_of_an_unknown_token() {
    for (merge, unknown) in [("qq a", "qq"), ("a qq", "qq"), ("x y", "xy"), ("a b c", "b c")] {
        let mut tiny = Tiny::new("gpt-2");
        tiny.merges[2] = merge.into();
        match tiny.error() {
            TokenizerError::MergeToken { index: 2, text, .. } => assert_eq!(text, unknown),
            other => panic!("{other}"),
        }
    }
}

#[test]
fn merge_into_a_control_token() {
    let mut tiny = Tiny::new("gpt-2");
    tiny.tokens.push("<|im_".into());
    tiny.kinds.as_mut().unwrap().push(1);
    tiny.tokens.push("end|>".into());
    tiny.kinds.as_mut().unwrap().push(1);
    tiny.merges.push("<|im_ end|>".into());
    match tiny.error() {
        TokenizerError::ReachableControl { id, .. } => assert_eq!(id, tiny.id("<|im_end|>")),
        other => panic!("{other}"),
    }
}

#[test]
fn control_token_for_a_byte() {
    let mut tiny = Tiny::new("gpt-2");
    tiny.kinds.as_mut().unwrap()[65] = 3;
    assert!(matches!(tiny.error(), TokenizerError::ReachableControl { id: 65, .. }));
}

/// Text that is likely to hit merges, specials and white-space rules.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        any::<String>(),
        prop::sample::select(vec![
            "hello",
            " w",
            "\u{e9}",
            "<|im_",
            "start|>",
            "<|im_end|>",
            "<tool>",
            "  ",
            "\n",
            "12",
            "\0",
        ])
        .prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

fn families() -> [Tokenizer; 4] {
    FAMILIES.map(|pre| Tiny::new(pre).load().unwrap())
}

#[test]
fn decode_inverts_encode() {
    let tokenizers = families();
    proptest!(|(text in text())| {
        for tokenizer in &tokenizers {
            for specials in [Specials::Ignore, Specials::Parse] {
                let ids = tokenizer.encode(&text, specials).unwrap();
                // Qwen2's composes text, but for the special tokens in it.
                let composes = tokenizer.pre_tokenizer() == Some(PreTokenizer::Qwen2);
                let composed: String = if composes { text.nfc().collect() } else { text.clone() };
                if composes && specials == Specials::Parse && composed != text {
                    continue;
                }
                prop_assert_eq!(&tokenizer.decode(&ids), composed.as_bytes());
                prop_assert_eq!(&tokenizer.decode_lossy(&ids), &composed);
            }
        }
    });
}

#[test]
fn plain_text_never_gives_a_control_token() {
    let tokenizers = families();
    proptest!(|(text in text())| {
        for tokenizer in &tokenizers {
            let ids = tokenizer.encode(&text, Specials::Ignore).unwrap();
            prop_assert_eq!(ids.iter().filter(|&&id| tokenizer.is_control(id)).count(), 0);
        }
    });
}

#[test]
fn stream_gives_what_decode_gives() {
    let tokenizer = Tiny::new("gpt-2").load().unwrap();
    proptest!(|(ids in prop::collection::vec(0_u32..300, 0..40))| {
        let mut stream = tokenizer.stream();
        let mut joined = String::new();
        for &id in &ids {
            joined.push_str(stream.push(id));
        }
        joined.push_str(stream.finish());
        prop_assert_eq!(joined, tokenizer.decode_lossy(&ids));
    });
}

#[test]
fn stream_of_encoded_text_never_shows_a_broken_character() {
    let tokenizer = Tiny::new("gpt-2").load().unwrap();
    proptest!(|(text in "\\PC{0,12}")| {
        let mut stream = tokenizer.stream();
        let mut joined = String::new();
        for id in tokenizer.encode(&text, Specials::Ignore).unwrap() {
            joined.push_str(stream.push(id));
            prop_assert!(text.starts_with(&joined));
        }
        prop_assert_eq!(stream.finish(), "");
        prop_assert_eq!(joined, text);
    });
}
