//! Every sample that is read occurs in the text, and its labels can be queried.

use vsweep::telemetry::prometheus::samples;

pub fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for sample in samples(&text) {
        assert!(text.contains(sample.name));
        for (name, value) in sample.all_labels() {
            assert!(text.contains(value));
            assert!(sample.label(name).is_some());
        }
    }
}
