//! Building a tokenizer from a GGUF file's metadata, which is not to be trusted.

use std::collections::HashMap;

use crate::gguf::{Gguf, Value, printable};

use super::bpe::Bpe;
use super::merges::Merges;
use super::pre_tokenizer::Splitter;
use super::sentencepiece::{self, CharacterMerges, Joins, SentencePiece, Spaces};
use super::special::{self, SpecialIds, SpecialTexts};
use super::vocabulary::{TokenKind, Vocabulary};
use super::{Algorithm, PreTokenizer, Tokenizer, TokenizerError, byte_alphabet};

const MODEL: &str = "tokenizer.ggml.model";
const PRE: &str = "tokenizer.ggml.pre";
const TOKENS: &str = "tokenizer.ggml.tokens";
const KINDS: &str = "tokenizer.ggml.token_type";
const MERGES: &str = "tokenizer.ggml.merges";
const ADD_BOS: &str = "tokenizer.ggml.add_bos_token";
const SCORES: &str = "tokenizer.ggml.scores";
const ADD_SPACE: &str = "tokenizer.ggml.add_space_prefix";
/// Our own keys: whether a piece that is a token is taken as it is; whether text is composed (NFC); whether only the first
/// stretch of a text gets a space.
const WHOLE_PIECES: &str = "fura.whole_pieces";
const NFC: &str = "fura.nfc";
const FIRST_ONLY: &str = "fura.space_prefix_first_only";
/// Keys of text normalizations that are not done here.
const UNKNOWN_NORMALIZATIONS: [&str; 2] =
    ["tokenizer.ggml.remove_extra_whitespaces", "tokenizer.ggml.precompiled_charsmap"];
/// Several times the largest vocabulary known, so that its tables stay small.
const MAX_TOKENS: usize = 1 << 20;

/// The pre-tokenizer that the file names.
pub(super) fn named_pre(gguf: &Gguf<'_>) -> Result<PreTokenizer, TokenizerError> {
    let Some(name) = gguf.opt_str(PRE)? else {
        return Err(TokenizerError::MissingPre { file: gguf.file().to_path_buf() });
    };
    PreTokenizer::from_name(name)
        .ok_or_else(|| TokenizerError::UnknownPre { at: gguf.location(PRE), found: printable(name) })
}

/// The two kinds of vocabulary.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spelling {
    /// In GPT-2's alphabet of bytes.
    ByteAlphabet,
    /// With U+2581 for spaces.
    SentencePiece,
}

pub(super) fn load(gguf: &Gguf<'_>, pre: Option<PreTokenizer>) -> Result<Tokenizer, TokenizerError> {
    let spelling = match gguf.str(MODEL)? {
        "gpt2" => Spelling::ByteAlphabet,
        "llama" => Spelling::SentencePiece,
        model => return Err(TokenizerError::Model { at: gguf.location(MODEL), found: printable(model) }),
    };
    let pre = match (spelling, pre) {
        (Spelling::ByteAlphabet, None) => Some(named_pre(gguf)?),
        (Spelling::ByteAlphabet, pre) => pre,
        (Spelling::SentencePiece, _) => None,
    };
    let texts = texts(gguf)?;
    let ids = ids(gguf, &texts)?;
    let roles = SpecialIds::load(gguf, &ids)?;
    let add_bos = gguf.opt_bool(ADD_BOS)?;
    if add_bos == Some(true) && roles.bos.is_none() {
        return Err(TokenizerError::MissingBos { at: gguf.location(ADD_BOS) });
    }
    let by_default = pre.is_none_or(PreTokenizer::adds_bos_by_default);
    let add_bos = add_bos.unwrap_or(by_default && roles.bos.is_some());

    let vocabulary = vocabulary(gguf, &texts, &roles, spelling)?;
    let special_texts =
        SpecialTexts::new(&vocabulary, |kind| matches!(kind, TokenKind::Control | TokenKind::UserDefined));
    let (algorithm, user_texts) = match pre {
        Some(pre) => (Algorithm::Bpe(Box::new(bpe(gguf, pre, &ids, &vocabulary)?)), None),
        None => {
            let user_texts = SpecialTexts::new(&vocabulary, |kind| kind == TokenKind::UserDefined);
            let pieces = pieces(gguf, &texts, &ids, &vocabulary, roles.unknown)?;
            (Algorithm::SentencePiece(Box::new(pieces)), Some(user_texts))
        }
    };
    Ok(Tokenizer { algorithm, special_texts, user_texts, vocabulary, roles, add_bos })
}

fn bpe(
    gguf: &Gguf<'_>,
    pre: PreTokenizer,
    ids: &HashMap<&str, u32>,
    vocabulary: &Vocabulary,
) -> Result<Bpe, TokenizerError> {
    let byte_ids = byte_ids(gguf, ids, vocabulary)?;
    let merges = merges(gguf, ids, vocabulary)?;
    let prefers = gguf.opt_bool(WHOLE_PIECES)?.unwrap_or(pre.prefers_whole_pieces());
    let whole_pieces = prefers.then(|| {
        let normal = vocabulary.iter().filter(|&(_, kind, _)| kind == TokenKind::Normal);
        normal.map(|(id, _, bytes)| (bytes.into(), id)).collect()
    });
    // GGUF files do not say so, but the name does: Qwen2's and its successors' tokenizers compose. Whether those called
    // "deepseek-r1-qwen" do is not known; their text is left as it is.
    let name = gguf.opt_str(PRE)?.unwrap_or(pre.name());
    let nfc = gguf.opt_bool(NFC)?.unwrap_or(pre == PreTokenizer::Qwen2 && name == pre.name());
    Ok(Bpe { pre, splitter: Splitter::new(pre)?, nfc, byte_ids, merges, whole_pieces })
}

fn pieces(
    gguf: &Gguf<'_>,
    texts: &[&str],
    ids: &HashMap<&str, u32>,
    vocabulary: &Vocabulary,
    unknown: Option<u32>,
) -> Result<SentencePiece, TokenizerError> {
    for key in UNKNOWN_NORMALIZATIONS {
        match gguf.value(key) {
            None | Some(Value::Bool(false)) => {}
            Some(_) => return Err(TokenizerError::Normalization { at: gguf.location(key) }),
        }
    }
    // A vocabulary without scores joins by a table, as `tokenizer.json` has it.
    let joins = match gguf.value(SCORES) {
        None if gguf.value(MERGES).is_some() => Joins::Table(character_merges(gguf, texts, ids, vocabulary)?),
        _ => Joins::Scores(scores(gguf, texts)?),
    };
    let mut byte_ids = [None; 256];
    for (id, kind, _) in vocabulary.iter() {
        if kind == TokenKind::Byte {
            // The vocabulary has checked it.
            if let Some(byte) = sentencepiece::byte_of(texts[id as usize]) {
                byte_ids[usize::from(byte)] = Some(id);
            }
        }
    }
    let spaces = Spaces {
        before: gguf.opt_bool(ADD_SPACE)?.unwrap_or(true),
        first_only: gguf.opt_bool(FIRST_ONLY)?.unwrap_or(false),
        // The file does not say so: the family's added tokens take the white space after them.
        strip_after_special: gguf.opt_str("general.architecture")? == Some("phi3"),
    };
    Ok(SentencePiece::new(vocabulary, joins, byte_ids, unknown, spaces))
}

fn character_merges(
    gguf: &Gguf<'_>,
    texts: &[&str],
    ids: &HashMap<&str, u32>,
    vocabulary: &Vocabulary,
) -> Result<CharacterMerges, TokenizerError> {
    let mut characters = HashMap::new();
    for (id, kind, _) in vocabulary.iter() {
        let mut text = texts[id as usize].chars();
        // A space in a text is U+2581 here.
        if let (TokenKind::Normal | TokenKind::UserDefined, Some(c), None) = (kind, text.next(), text.next())
            && c != ' '
        {
            characters.insert(if c == '\u{2581}' { ' ' } else { c }, id);
        }
    }
    Ok(CharacterMerges { characters, merges: merges(gguf, ids, vocabulary)? })
}

fn scores(gguf: &Gguf<'_>, texts: &[&str]) -> Result<Vec<f32>, TokenizerError> {
    let scores: Vec<f32> = gguf.f32s(SCORES)?.collect();
    if scores.len() != texts.len() {
        let (found, expected) = (scores.len(), texts.len());
        return Err(TokenizerError::ScoreCount { at: gguf.location(SCORES), found, expected });
    }
    if let Some(id) = (0..).zip(&scores).find(|(_, s)| s.is_nan()).map(|(id, _)| id) {
        return Err(TokenizerError::Score { at: gguf.location(SCORES), id });
    }
    Ok(scores)
}

fn texts<'a>(gguf: &Gguf<'a>) -> Result<Vec<&'a str>, TokenizerError> {
    let strings = gguf.strings(TOKENS)?;
    let count = strings.len();
    if count == 0 || count > MAX_TOKENS {
        return Err(TokenizerError::TokenCount { at: gguf.location(TOKENS), count, limit: MAX_TOKENS });
    }
    (0..)
        .zip(strings)
        .map(|(id, bytes)| {
            std::str::from_utf8(bytes)
                .map_err(|_| TokenizerError::TokenUtf8 { at: gguf.location(TOKENS), id })
        })
        .collect()
}

fn ids<'a>(gguf: &Gguf<'_>, texts: &[&'a str]) -> Result<HashMap<&'a str, u32>, TokenizerError> {
    let mut ids = HashMap::with_capacity(texts.len());
    for (id, &text) in (0..).zip(texts) {
        if let Some(first) = ids.insert(text, id) {
            let (at, text) = (gguf.location(TOKENS), printable(text));
            return Err(TokenizerError::DuplicateToken { at, id, first, text });
        }
    }
    Ok(ids)
}

fn vocabulary(
    gguf: &Gguf<'_>,
    texts: &[&str],
    roles: &SpecialIds,
    spelling: Spelling,
) -> Result<Vocabulary, TokenizerError> {
    let codes = gguf.opt_i32s(KINDS)?;
    if let Some(found) = codes.as_ref().map(ExactSizeIterator::len).filter(|&n| n != texts.len()) {
        return Err(TokenizerError::KindCount { at: gguf.location(KINDS), found, expected: texts.len() });
    }
    // A file without kinds has only normal tokens, and those with a role.
    let codes = codes.into_iter().flatten().map(Some).chain(std::iter::repeat(None));
    let mut vocabulary = Vocabulary::default();
    for ((id, &text), code) in (0..).zip(texts).zip(codes) {
        let kind = match code {
            None => TokenKind::Normal,
            Some(found) => TokenKind::from_code(found).ok_or_else(|| TokenizerError::Kind {
                at: gguf.location(KINDS),
                id,
                found,
            })?,
        };
        // In a SentencePiece vocabulary a token of kind "user-defined" is found in any text.
        let marker = spelling == Spelling::SentencePiece && special::is_turn_marker(text);
        let kind = if marker || roles.is_control(id) { TokenKind::Control } else { kind };
        let spelled = match (spelling, kind) {
            (Spelling::ByteAlphabet, TokenKind::Normal | TokenKind::Byte) => byte_alphabet::decode(text),
            (Spelling::SentencePiece, TokenKind::Byte) => {
                let byte = sentencepiece::byte_of(text);
                Some(vec![byte.ok_or_else(|| TokenizerError::ByteToken {
                    at: gguf.location(TOKENS),
                    id,
                    text: printable(text),
                })?])
            }
            (Spelling::SentencePiece, TokenKind::Normal | TokenKind::UserDefined) => {
                Some(sentencepiece::spell(text))
            }
            _ => None,
        };
        vocabulary.push(spelled.as_deref().unwrap_or(text.as_bytes()), kind);
    }
    Ok(vocabulary)
}

/// Refuses a token that plain text would produce although it is structure.
fn check_reachable(
    gguf: &Gguf<'_>,
    key: &str,
    vocabulary: &Vocabulary,
    id: u32,
) -> Result<(), TokenizerError> {
    match vocabulary.kind(id) {
        Some(TokenKind::Control | TokenKind::Unknown) => {
            Err(TokenizerError::ReachableControl { at: gguf.location(key), id })
        }
        _ => Ok(()),
    }
}

fn byte_ids(
    gguf: &Gguf<'_>,
    ids: &HashMap<&str, u32>,
    vocabulary: &Vocabulary,
) -> Result<[Option<u32>; 256], TokenizerError> {
    let byte_ids = byte_alphabet::alphabet().map(|c| ids.get(c.encode_utf8(&mut [0; 4]) as &str).copied());
    if byte_ids.iter().all(Option::is_none) {
        return Err(TokenizerError::NoBytes { at: gguf.location(TOKENS) });
    }
    for id in byte_ids.into_iter().flatten() {
        check_reachable(gguf, TOKENS, vocabulary, id)?;
    }
    Ok(byte_ids)
}

fn merges(
    gguf: &Gguf<'_>,
    ids: &HashMap<&str, u32>,
    vocabulary: &Vocabulary,
) -> Result<Merges, TokenizerError> {
    let mut merges = Merges::default();
    let mut merged = String::new();
    for (rank, (index, bytes)) in (0..).zip(gguf.strings(MERGES)?.enumerate()) {
        let lossy = || printable(&String::from_utf8_lossy(bytes));
        // The first text may itself start with a space in vocabularies that do not spell it out.
        let halves = std::str::from_utf8(bytes).ok().and_then(|text| {
            let space = text.char_indices().skip(1).find(|&(_, c)| c == ' ')?.0;
            Some((&text[..space], &text[space + 1..])).filter(|(_, right)| !right.is_empty())
        });
        let Some((left, right)) = halves else {
            return Err(TokenizerError::MergeForm { at: gguf.location(MERGES), index, text: lossy() });
        };
        merged.clear();
        merged.push_str(left);
        merged.push_str(right);
        let id = |text: &str| {
            ids.get(text).copied().ok_or_else(|| TokenizerError::MergeToken {
                at: gguf.location(MERGES),
                index,
                text: printable(text),
            })
        };
        let (pair, merged) = ((id(left)?, id(right)?), id(&merged)?);
        check_reachable(gguf, MERGES, vocabulary, merged)?;
        merges.insert(pair, rank, merged);
    }
    Ok(merges)
}
