//! What goes into the holes of goals and into the phone.

pub(super) const RELATIONS: [&str; 3] = ["sister", "boss", "doctor"];
pub(super) const MOODS: [&str; 2] = ["running", "sleep"];

pub(super) const NAMES: [&str; 20] = [
    "Anna", "Ben", "Clara", "David", "Emma", "Frank", "Grace", "Henry", "Ivy", "Jack", "Kate", "Leo", "Mia",
    "Noah", "Olga", "Paul", "Rosa", "Sam", "Tina", "Victor",
];

pub(super) const PLAYLISTS: [&str; 6] = ["Sunrise", "Thunder", "Velvet", "Harbour", "Copper", "Meadow"];

pub(super) const EVENTS: [&str; 16] = [
    "lunch",
    "dinner",
    "the meeting",
    "the haircut",
    "the checkup",
    "the lesson",
    "the interview",
    "the rehearsal",
    "the visit",
    "breakfast",
    "the workshop",
    "the party",
    "the picnic",
    "the match",
    "the tour",
    "the exam",
];

pub(super) const MESSAGES: [&str; 16] = [
    "I am late",
    "see you soon",
    "thank you",
    "call me back",
    "happy birthday",
    "the train is late",
    "I am at home",
    "bring the keys",
    "all is well",
    "dinner is ready",
    "I cannot come",
    "wait for me",
    "good luck",
    "the door is open",
    "I found it",
    "sleep well",
];

pub(super) const LABELS: [&str; 8] = ["work", "school", "gym", "medicine", "bread", "bus", "walk", "nap"];

pub(super) const SITES: [&str; 16] = [
    "news.example",
    "maps.example",
    "weather.example",
    "trains.example",
    "recipes.example",
    "bank.example",
    "shop.example",
    "tickets.example",
    "library.example",
    "cinema.example",
    "sports.example",
    "garden.example",
    "jobs.example",
    "hotels.example",
    "museum.example",
    "radio.example",
];

pub(super) const FILES: [&str; 12] = [
    "report.pdf",
    "photo.jpg",
    "budget.xls",
    "letter.doc",
    "song.mp3",
    "plan.txt",
    "invoice.pdf",
    "map.png",
    "talk.ppt",
    "list.txt",
    "scan.pdf",
    "video.mp4",
];
