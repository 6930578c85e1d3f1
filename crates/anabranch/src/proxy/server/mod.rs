//! The proxy service.
