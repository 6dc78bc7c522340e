//! Sums of specialists of one base.

use super::{Provenance, Specialist, SpecialistError};

impl Specialist {
    /// `self - other`, coordinate by coordinate: what training added between two states of a run, say.
    ///
    /// ```
    /// use fura_core::fingerprint::Fingerprint;
    /// use fura_core::layout::{Layout, Linear};
    /// use fura_core::specialist::{Provenance, Specialist};
    /// let layout = Layout::new(2, [Linear::new("w", 2, 2)])?;
    /// let of = |c| Specialist::new(Fingerprint::of(b"m"), layout.clone(), c, Provenance::default());
    /// let (early, late) = (of(vec![0.25, 0.0])?, of(vec![0.5, -0.25])?);
    /// let gained = late.difference(&early, Provenance::default())?;
    /// assert_eq!(gained.coordinates(), [0.25, -0.25]);
    /// assert_eq!(gained.scaled(2.0, Provenance::default())?.coordinates(), [0.5, -0.5]);
    /// let mean = Specialist::average(&[&early, &late], Provenance::default())?;
    /// assert_eq!(mean.coordinates(), [0.375, -0.125]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SpecialistError::Mismatch`] for specialists of different bases or layouts;
    /// [`SpecialistError::Value`] where a difference is not between -1 and 1.
    pub fn difference(&self, other: &Self, provenance: Provenance) -> Result<Self, SpecialistError> {
        self.matches(other)?;
        let differences = self.coordinates.iter().zip(&other.coordinates).map(|(a, b)| a - b);
        Self::new(self.base, self.layout.clone(), differences.collect(), provenance)
    }

    /// `factor` times the coordinates: a fraction for a weaker specialist, -1 for its opposite. Coordinates
    /// enter the weights as `1 + c`, so `-c` undoes `c` to first order only.
    ///
    /// # Errors
    /// [`SpecialistError::Value`] where a product is not between -1 and 1.
    pub fn scaled(&self, factor: f32, provenance: Provenance) -> Result<Self, SpecialistError> {
        let scaled = self.coordinates.iter().map(|c| factor * c).collect();
        Self::new(self.base, self.layout.clone(), scaled, provenance)
    }

    /// The mean of specialists, summed in `f64` in the order given.
    ///
    /// # Errors
    /// [`SpecialistError::Empty`] for none, [`SpecialistError::Mismatch`] for specialists of different bases
    /// or layouts.
    pub fn average(specialists: &[&Self], provenance: Provenance) -> Result<Self, SpecialistError> {
        let [first, others @ ..] = specialists else {
            return Err(SpecialistError::Empty);
        };
        let mut sums: Vec<f64> = first.coordinates.iter().map(|&c| c.into()).collect();
        for other in others {
            first.matches(other)?;
            sums.iter_mut().zip(&other.coordinates).for_each(|(sum, &c)| *sum += f64::from(c));
        }
        let count = specialists.len() as f64;
        let mean = sums.into_iter().map(|sum| (sum / count) as f32).collect();
        Self::new(first.base, first.layout.clone(), mean, provenance)
    }

    /// Refuses a specialist of another base or layout.
    fn matches(&self, other: &Self) -> Result<(), SpecialistError> {
        let mut difference = self.difference_from(&other.base, &other.layout, "the other");
        let (its, others) = (self.layout.scope(), other.layout.scope());
        if difference.is_empty() && its != others {
            difference = format!("its scope is {its}, that of the other {others}");
        }
        let (its, others) = (self.layout.form(), other.layout.form());
        if difference.is_empty() && its != others {
            difference = format!("its form is {its}, that of the other {others}");
        }
        match difference.is_empty() {
            true => Ok(()),
            false => Err(SpecialistError::Mismatch {
                left: self.provenance.name.clone(),
                right: other.provenance.name.clone(),
                difference,
            }),
        }
    }
}
