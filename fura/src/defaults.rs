//! The settings of a run that nobody chose otherwise.

use crate::reward::Reward;
use crate::trainer::Answers;
use crate::turns::LayerTurn;
use fura_core::layout::Scope;
use fura_model::ModelConfig;

/// Settings of a run. Which are best depends on what a member costs, so on how members answer and where they act; the
/// studies in the docs (reports on habits, and the phone) have the measurements.
#[derive(Clone, Debug, PartialEq)]
pub struct Defaults {
    /// First trained layer.
    pub from_layer: usize,
    /// Tokens at which the specialist acts.
    pub scope: Scope,
    /// Generations.
    pub generations: u32,
    /// Antithetic pairs that `alpha` is meant for; those of a generation that perturbs all trained layers.
    pub pairs: u32,
    /// Layers that take turns; empty if every generation perturbs all trained layers.
    pub turns: Vec<LayerTurn>,
    /// Requests a generation.
    pub requests: usize,
    /// Standard deviation of the perturbation.
    pub sigma: f32,
    /// Step size.
    pub alpha: f32,
    /// Share of the step size that is left at the end.
    pub final_alpha: f32,
    /// What is maximized.
    pub reward: Reward,
}

impl Defaults {
    /// Settings for a model. Without a `scope`, scored answers are learnt at answers only, and written ones everywhere.
    ///
    /// ```
    /// use fura::core::layout::Scope;
    /// use fura::defaults::Defaults;
    /// use fura::trainer::Answers;
    /// # let (model, _folder) = fura_tests::tiny::open(1, 32);
    /// let d = Defaults::new(model.config(), Answers::Scored, None);
    /// assert_eq!(d.scope, Scope::Answer);
    /// assert_eq!(d.turns, d.turns_from(0, model.config().layers));
    /// ```
    pub fn new(config: &ModelConfig, answers: Answers, scope: Option<Scope>) -> Self {
        let layers = config.layers;
        let scored = answers == Answers::Scored;
        let scope = scope.unwrap_or(if scored { Scope::Answer } else { Scope::Everywhere });
        // The upper tenth: there the fitness has most slope for its curvature, and the layers below are computed
        // once for the whole population.
        let upper = layers - layers.div_ceil(10);
        let mut settings = Self {
            from_layer: upper,
            scope,
            turns: Vec::new(),
            generations: 400,
            pairs: 16,
            requests: 8,
            sigma: 0.2,
            alpha: 0.1,
            final_alpha: 0.05,
            reward: Reward::LogExpected,
        };
        if scored && scope == Scope::Answer {
            // A member computes a row where it would compute a prompt, so there is room for more layers and requests.
            settings.from_layer = layers * 2 / 5;
            settings.requests = 24;
            settings.generations = 200;
        }
        // Every token that is written costs the whole head, whichever layer is perturbed: then members are dear.
        if scored {
            settings.turns = settings.turns_from(settings.from_layer, layers);
        }
        settings
    }

    /// Turns for a model of `layers` layers trained from `from_layer` on.
    ///
    /// # Panics
    /// If there is no such layer.
    pub fn turns_from(&self, from_layer: usize, layers: usize) -> Vec<LayerTurn> {
        match self.scope {
            Scope::Everywhere => LayerTurn::cycle(from_layer, layers),
            Scope::Answer => LayerTurn::top_and_all(from_layer, layers),
        }
    }
}
