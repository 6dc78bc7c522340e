//! Properties of the folder reader.
