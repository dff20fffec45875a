//! A sweep's results for people: charts as data, pictures, pages, terminal text and progress, all made from the record.

pub mod report;
