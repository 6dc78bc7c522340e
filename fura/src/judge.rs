//! Who grades what members write.

use fura_tasks::{External, Grade, Grader, Label, Request, Task};
use std::collections::HashMap;

/// The tasks' own graders, or another program.
#[derive(Debug)]
pub enum Judge {
    /// Each task's own grader.
    Own,
    /// A running program, which gets all tasks.
    External(Box<External>),
}

impl Judge {
    /// Grades what each task's outputs are: `outputs[i]` are those of task `i`. Equal outputs of a task are graded
    /// once.
    pub fn grade(&mut self, tasks: &[&Task], outputs: &[Vec<&str>]) -> Vec<Vec<Grade>> {
        let mut distinct: Vec<Request<'_>> = Vec::new();
        let mut places = Vec::with_capacity(tasks.len());
        for (task, outputs) in tasks.iter().zip(outputs) {
            let mut seen = HashMap::new();
            let of_task: Vec<usize> = outputs
                .iter()
                .map(|output| {
                    *seen.entry(*output).or_insert_with(|| {
                        distinct.push(Request { task, output });
                        distinct.len() - 1
                    })
                })
                .collect();
            places.push(of_task);
        }
        let grades = match self {
            Judge::Own => own(&distinct),
            Judge::External(external) => external.grade(&distinct),
        };
        places.iter().map(|p| p.iter().map(|i| grades[*i].clone()).collect()).collect()
    }
}

/// Grades by each task's own grader, made once for the outputs of a task, which follow each other.
fn own(requests: &[Request<'_>]) -> Vec<Grade> {
    let mut grades = Vec::with_capacity(requests.len());
    for of_task in requests.chunk_by(|a, b| std::ptr::eq(a.task, b.task)) {
        match of_task[0].task.grader() {
            Ok(grader) => grades.extend(of_task.iter().map(|r| grader.grade(r.output))),
            Err(error) => {
                let fault = Grade::Fault { label: Label::BadTask, why: error.to_string() };
                grades.extend(of_task.iter().map(|_| fault.clone()));
            }
        }
    }
    grades
}

#[cfg(test)]
mod tests {
    use super::*;
    use fura_tasks::TaskSet;

    #[test]
    fn grades_come_in_the_order_of_outputs_and_a_broken_task_is_a_fault() {
        let lines = concat!(
            r#"{"id":"a","prompt":"1 + 1 =","answer":"2","grade":{"type":"number"}}"#,
            "\n",
            r#"{"id":"b","prompt":"Sky:","answer":"blue","grade":{"type":"exact"}}"#
        );
        let set = TaskSet::read("two.jsonl", lines.as_bytes()).unwrap();
        let mut broken = set.tasks()[1].clone();
        broken.answer.clear();
        let tasks = [&set.tasks()[0], &set.tasks()[1], &broken];
        let outputs = [vec!["2", "3", "2.0"], vec!["blue", "2", "blue"], vec!["x", "x", ""]];
        let grades = Judge::Own.grade(&tasks, &outputs);
        for ((task, outputs), grades) in tasks.iter().zip(&outputs).zip(&grades) {
            for (output, grade) in outputs.iter().zip(grades) {
                assert_eq!(*grade, task.grade(output), "{output:?}");
            }
        }
        let values: Vec<Option<f64>> = grades.iter().flatten().map(Grade::value).collect();
        let (right, wrong) = (Some(1.0), Some(0.0));
        assert_eq!(values, [right, wrong, right, right, wrong, right, None, None, None]);
    }
}
