//! Splits share nothing with training of what they claim.

use super::*;

#[test]
fn no_values_of_training_are_unseen_values_for_any_user() {
    let sets = [PhoneSplit::Train, PhoneSplit::Values].map(|split| {
        let mut values = HashSet::new();
        for level in Level::ALL {
            for name in User::templates(split, level) {
                for number in 0..40 {
                    let task = User::new(number % 5).task(&name, split, number).unwrap();
                    values.insert(task.values().to_owned());
                }
            }
        }
        values
    });
    assert!(sets.iter().all(|set| set.len() > 500));
    assert!(sets[0].is_disjoint(&sets[1]));
}

#[test]
fn the_other_splits_are_disjoint_from_training_in_what_they_claim() {
    let tasks = |split| {
        let mut tasks = Vec::new();
        for level in Level::ALL {
            for name in User::templates(split, level) {
                tasks.extend((0..20).map(|n| User::new(n % 5).task(&name, split, n).unwrap()));
            }
        }
        tasks
    };
    let trained = tasks(PhoneSplit::Train);
    let families = |tasks: &[PhoneTask]| -> HashSet<String> {
        tasks.iter().map(|t| t.template().split('/').next().unwrap().to_owned()).collect()
    };
    assert!(families(&trained).is_disjoint(&families(&tasks(PhoneSplit::Templates))));
    let goals: HashSet<_> = trained.iter().map(|t| t.goal().to_owned()).collect();
    assert!(tasks(PhoneSplit::Phrasings).iter().all(|t| !goals.contains(t.goal())));
    let places: HashSet<_> = trained.iter().map(PhoneTask::places).collect();
    assert!(tasks(PhoneSplit::Layouts).iter().all(|t| !places.contains(&t.places())));
    assert!(
        tasks(PhoneSplit::Layouts).iter().all(|t| Episode::new(t.clone(), 1).screen().lines().count() <= 7)
    );
    assert!(trained.iter().all(|t| !t.apps().contains(&App::Files)));
    assert!(tasks(PhoneSplit::Apps).iter().all(|t| t.apps().contains(&App::Files)));
}

#[test]
fn no_wording_of_training_is_an_unseen_one() {
    for (_, name) in all_templates() {
        let family = templates().find(|t| t.name() == name).unwrap().family;
        let words = wording::words_of(family);
        assert!(words.trained.iter().all(|w| !words.unseen.contains(w)));
        assert!(
            matches!(family, Family::Both(..)) || (!words.trained.is_empty() && !words.unseen.is_empty())
        );
    }
}
