//! A model: its pack and its tokenizer, memory-mapped.

use crate::chat::ChatTemplate;
use crate::config::{LINEARS, ModelConfig};
use crate::error::ModelError;
use crate::folder::Folder;
use crate::gguf::{Gguf, TensorKind};
use crate::map::{self, Map};
use crate::pack::{self, Matrix, Pack};
use crate::tokenizer::{PreTokenizer, Tokenizer};
use crate::weights::Deviation;
use fura_core::fingerprint::Fingerprint;
use fura_core::layout::Layout;
use fura_quant::PackedMatrix;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// A loaded model. Weights and bases are clean pages of a memory map; only the tokenizer lives on the heap.
#[derive(Debug)]
pub struct Model {
    file: PathBuf,
    map: Map,
    pack: Pack,
    layout: Layout,
    tokenizer: Tokenizer,
    chat: Option<ChatTemplate>,
    unused: Vec<String>,
}

/// The mapped files of a model.
enum Files {
    Gguf(Vec<(PathBuf, Map)>),
    Folder(Folder),
}

impl Files {
    fn open(path: &Path) -> Result<Self, ModelError> {
        if Folder::is(path) {
            return Ok(Files::Folder(Folder::open(path)?));
        }
        Ok(Files::Gguf(map::open_gguf(path)?))
    }

    fn gguf(&self) -> Result<Gguf<'_>, ModelError> {
        match self {
            Files::Folder(folder) => folder.gguf(),
            Files::Gguf(files) => {
                let parts = files.iter().map(|(file, map)| Gguf::parse(map.bytes(), file));
                Ok(Gguf::join(parts.collect::<Result<_, _>>()?)?)
            }
        }
    }
}

impl Model {
    /// Opens a GGUF file, a split model by any of its files, a folder with one of these, or a folder with `config.json`,
    /// safetensors files and `tokenizer.json`. Its pack for block size `block` is taken from the `cache` folder, or made
    /// there first. Meanwhile `progress` is called often, with matrices done and in all, and says whether to go on. The
    /// model's files are never changed.
    ///
    /// # Errors
    /// Anything wrong with either file, naming file, field and offset. [`ModelError::Interrupted`] where `progress` said to
    /// stop: nothing is left of the pack then.
    pub fn open(
        file: &Path,
        cache: &Path,
        block: usize,
        progress: &mut (dyn FnMut(usize, usize) -> ControlFlow<()> + Send),
    ) -> Result<Model, ModelError> {
        Model::open_with(file, cache, block, None, progress)
    }

    /// As [`Model::open`], with a pre-tokenizer of the caller's choice: for files that name none, or an unknown one that is
    /// known to split alike.
    ///
    /// # Errors
    /// As [`Model::open`].
    pub fn open_with(
        file: &Path,
        cache: &Path,
        block: usize,
        pre: Option<PreTokenizer>,
        progress: &mut (dyn FnMut(usize, usize) -> ControlFlow<()> + Send),
    ) -> Result<Model, ModelError> {
        let files = Files::open(file)?;
        let gguf = files.gguf()?;
        let config = ModelConfig::from_gguf(&gguf)?;
        let unused = pack::unused_tensors(&gguf, &config)?;
        let mut tokenizer = match pre {
            Some(pre) => Tokenizer::with_pre_tokenizer(&gguf, pre)?,
            None => Tokenizer::from_gguf(&gguf)?,
        };
        if tokenizer.vocabulary_size() != config.vocab {
            return Err(ModelError::Shape {
                file: file.to_owned(),
                tensor: "token_embd.weight".to_owned(),
                found: vec![config.d_model, config.vocab],
                expected: vec![config.d_model, tokenizer.vocabulary_size()],
            });
        }
        let chat = ChatTemplate::from_gguf(&gguf)?;
        if let Some(end) = chat.as_ref().and_then(|chat| chat.turn_end(&tokenizer)) {
            tokenizer.stop_at(end);
        }
        let layout = pack::layout(&config, block, file)?;
        let fingerprint = pack::fingerprint(&gguf, &config)?;
        let path = cache.join(format!("{}-b{block}.fura-pack", &fingerprint.to_string()[..16]));
        let (map, pack) = pack::open(&gguf, &config, fingerprint, block, &path, progress)?;
        Ok(Model { file: file.to_owned(), map, pack, layout, tokenizer, chat, unused })
    }

    /// Shapes and constants of a model, from its header alone: its weights are not read and no pack is made.
    ///
    /// # Errors
    /// As [`Model::open`], for what the header says.
    pub fn read_config(file: &Path) -> Result<ModelConfig, ModelError> {
        ModelConfig::from_gguf(&Files::open(file)?.gguf()?)
    }

    /// The file or folder it came from.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Shapes and constants.
    pub fn config(&self) -> &ModelConfig {
        &self.pack.config
    }

    /// The content fingerprint of the base: what a specialist is bound to.
    pub fn fingerprint(&self) -> Fingerprint {
        self.pack.fingerprint
    }

    /// The layout of FuRA-S coordinates: all linears of all layers, unfused, in the order q, k, v, o, gate,
    /// up, down.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The layout of coordinates that are trained from layer `from_layer` upwards: a suffix of [`Model::layout`].
    ///
    /// # Panics
    /// If there is no such layer.
    pub fn layout_from(&self, from_layer: usize) -> Layout {
        assert!(from_layer < self.config().layers, "no such layer");
        let linears = self.layout.linears()[self.linear_index(from_layer, 0)..].iter().cloned();
        Layout::new(self.layout.block(), linears).expect("a part of a valid layout is valid")
    }

    /// The first layer of a layout that [`Model::layout_from`] made; `None` if it made no such layout.
    pub fn first_layer(&self, layout: &Layout) -> Option<usize> {
        (0..self.config().layers).find(|l| {
            self.layout.linears()[self.linear_index(*l, 0)..] == *layout.linears()
                && self.layout.block() == layout.block()
        })
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// The chat template, if the file brings one.
    pub fn chat_template(&self) -> Option<&ChatTemplate> {
        self.chat.as_ref()
    }

    /// Bytes of the memory-mapped pack.
    pub fn mapped_bytes(&self) -> usize {
        self.map.bytes().len()
    }

    /// Number of parameters of the base model, norms and biases included.
    pub fn parameters(&self) -> usize {
        let matrices: usize = self.pack.matrices.iter().map(|m| m.d_out * m.d_in).sum();
        let vectors: usize = self.pack.vectors.iter().map(|v| v.len() / size_of::<f32>()).sum();
        matrices + vectors
    }

    /// Name, format, output and input width of every matrix.
    pub fn matrices(&self) -> impl Iterator<Item = (&str, fura_quant::Format, usize, usize)> {
        self.pack.matrices.iter().map(|m| (m.name.as_str(), m.format, m.d_out, m.d_in))
    }

    /// What the pack made of every matrix: its name, its type in the file, the format of the pack, and how far the
    /// values moved (`None` if the file's blocks were packed as they are).
    pub fn conversions(
        &self,
    ) -> impl Iterator<Item = (&str, TensorKind, fura_quant::Format, Option<Deviation>)> {
        self.pack.matrices.iter().map(|m| (m.name.as_str(), m.source, m.format, m.deviation))
    }

    /// Names of tensors in the file that are not part of the language model and were not read.
    pub fn unused_tensors(&self) -> &[String] {
        &self.unused
    }

    /// Index in the layout of linear `k` (order q, k, v, o, gate, up, down) of a layer.
    pub(crate) fn linear_index(&self, layer: usize, k: usize) -> usize {
        layer * LINEARS.len() + k
    }

    /// The packed weights of a linear of the layout.
    ///
    /// # Panics
    /// If there is no such linear.
    pub fn linear(&self, linear: usize) -> PackedMatrix<'_> {
        assert!(linear < self.layout.linears().len(), "no such linear");
        self.packed(&self.pack.matrices[linear])
    }

    /// The right singular vectors of a linear's blocks (layout of [`fura_simd::block`]).
    ///
    /// # Panics
    /// If there is no such linear.
    pub fn basis(&self, linear: usize) -> &[f32] {
        match &self.pack.matrices[linear].basis {
            Some((v, _)) => bytemuck::cast_slice(&self.map.bytes()[v.clone()]),
            None => panic!("matrix {linear} is not a linear of the layout"),
        }
    }

    /// The singular values of a linear's blocks, one for each input channel.
    ///
    /// # Panics
    /// If there is no such linear.
    pub fn singular_values(&self, linear: usize) -> &[f32] {
        match &self.pack.matrices[linear].basis {
            Some((_, s)) => bytemuck::cast_slice(&self.map.bytes()[s.clone()]),
            None => panic!("matrix {linear} is not a linear of the layout"),
        }
    }

    pub(crate) fn embedding(&self) -> PackedMatrix<'_> {
        self.packed(&self.pack.matrices[self.layout.linears().len()])
    }

    pub(crate) fn head(&self) -> PackedMatrix<'_> {
        // The last matrix: the head, or the embedding if they are tied.
        self.packed(&self.pack.matrices[self.pack.matrices.len() - 1])
    }

    pub(crate) fn attention_norm(&self, layer: usize) -> &[f32] {
        self.vector(self.pack.index.attention_norm(layer))
    }

    pub(crate) fn mlp_norm(&self, layer: usize) -> &[f32] {
        self.vector(self.pack.index.mlp_norm(layer))
    }

    pub(crate) fn output_norm(&self) -> &[f32] {
        self.vector(self.pack.index.output_norm())
    }

    /// Norms of attention's and of the MLP's output.
    pub(crate) fn post_norms(&self, layer: usize) -> Option<[&[f32]; 2]> {
        self.pack.index.post_norms(layer).map(|at| at.map(|i| self.vector(i)))
    }

    /// Norms of the heads of queries and of keys.
    pub(crate) fn head_norms(&self, layer: usize) -> Option<[&[f32]; 2]> {
        self.pack.index.head_norms(layer).map(|at| at.map(|i| self.vector(i)))
    }

    /// Bias of linear `k` of a layer.
    pub(crate) fn bias(&self, layer: usize, k: usize) -> Option<&[f32]> {
        self.pack.index.bias(layer, k).map(|i| self.vector(i))
    }

    /// Divisors of the rotary frequencies.
    pub(crate) fn rope_divisors(&self) -> Option<&[f32]> {
        self.pack.index.divisors().map(|i| self.vector(i))
    }

    fn vector(&self, i: usize) -> &[f32] {
        bytemuck::cast_slice(&self.map.bytes()[self.pack.vectors[i].clone()])
    }

    fn packed(&self, m: &Matrix) -> PackedMatrix<'_> {
        PackedMatrix::new(m.format, m.d_out, m.d_in, &self.map.bytes()[m.data.clone()])
            .expect("checked when the pack was parsed")
    }
}
