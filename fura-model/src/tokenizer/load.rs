//! Building a tokenizer from a GGUF file's metadata, which is not to be trusted.

use std::collections::HashMap;

use crate::gguf::{Gguf, printable};

use super::merges::Merges;
use super::pre_tokenizer::Splitter;
use super::special::{SpecialIds, SpecialTexts};
use super::vocabulary::{TokenKind, Vocabulary};
use super::{PreTokenizer, Tokenizer, TokenizerError, byte_alphabet};

const MODEL: &str = "tokenizer.ggml.model";
const PRE: &str = "tokenizer.ggml.pre";
const TOKENS: &str = "tokenizer.ggml.tokens";
const KINDS: &str = "tokenizer.ggml.token_type";
const MERGES: &str = "tokenizer.ggml.merges";
const ADD_BOS: &str = "tokenizer.ggml.add_bos_token";
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

pub(super) fn load(gguf: &Gguf<'_>, pre: PreTokenizer) -> Result<Tokenizer, TokenizerError> {
    let model = gguf.str(MODEL)?;
    if model != "gpt2" {
        return Err(TokenizerError::Model { at: gguf.location(MODEL), found: printable(model) });
    }
    let texts = texts(gguf)?;
    let ids = ids(gguf, &texts)?;
    let roles = SpecialIds::load(gguf, &ids)?;
    let add_bos = gguf.opt_bool(ADD_BOS)?;
    if add_bos == Some(true) && roles.bos.is_none() {
        return Err(TokenizerError::MissingBos { at: gguf.location(ADD_BOS) });
    }
    let add_bos = add_bos.unwrap_or(pre.adds_bos_by_default() && roles.bos.is_some());

    let vocabulary = vocabulary(gguf, &texts, &roles)?;
    let byte_ids = byte_ids(gguf, &ids, &vocabulary)?;
    let merges = merges(gguf, &ids, &vocabulary)?;
    let whole_pieces = pre.prefers_whole_pieces().then(|| {
        let normal = vocabulary.iter().filter(|&(_, kind, _)| kind == TokenKind::Normal);
        normal.map(|(id, _, bytes)| (bytes.into(), id)).collect()
    });
    Ok(Tokenizer {
        pre,
        splitter: Splitter::new(pre)?,
        special_texts: SpecialTexts::new(&vocabulary),
        vocabulary,
        byte_ids,
        merges,
        whole_pieces,
        roles,
        add_bos,
    })
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

fn vocabulary(gguf: &Gguf<'_>, texts: &[&str], roles: &SpecialIds) -> Result<Vocabulary, TokenizerError> {
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
        let kind = if roles.is_control(id) { TokenKind::Control } else { kind };
        let spelled = match kind {
            TokenKind::Normal | TokenKind::Byte => byte_alphabet::decode(text),
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
