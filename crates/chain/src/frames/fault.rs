//! The faults of frames.

use crate::view::InvalidView;
use std::fmt;

/// Why bytes are no frame, or why a value can't become one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadFrame {
    /// A part is too long: its name, its size in bytes, and the limit.
    TooLong(&'static str, usize, usize),
    /// The length is smaller than a header.
    TooShort(usize),
    /// The checksum is wrong: the one in the frame, and the computed one.
    Checksum(u32, u32),
    /// The frame has another version than ours: this one.
    Version(u8),
    /// The peer doesn't speak our version: the oldest and the newest version that it speaks.
    Versions(u8, u8),
    /// A hello doesn't begin with our magic bytes.
    Foreign,
    /// An unknown kind of frame.
    Kind(u8),
    /// The slot doesn't exist, or this kind of frame has none.
    Slot(u16),
    /// This kind of frame has no epoch.
    Epoch(u64),
    /// Reserved bytes aren't 0.
    Reserved(u32),
    /// The frame ends within this part.
    Cut(&'static str),
    /// This part has no byte, and must have one.
    Empty(&'static str),
    /// This many bytes follow the last part.
    Rest(usize),
    /// A part has an unknown tag.
    Tag(&'static str, u8),
    /// A part isn't UTF-8.
    NoText(&'static str),
    /// The view is invalid.
    View(InvalidView),
}

impl fmt::Display for BadFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong(what, bytes, most) => {
                write!(f, "the {what} has {bytes} bytes, {most} are allowed")
            }
            Self::TooShort(bytes) => write!(f, "a frame of {bytes} bytes has no header"),
            Self::Checksum(said, is) => {
                write!(f, "the checksum is {is:08x}, the frame says {said:08x}: bytes were damaged")
            }
            Self::Version(version) => write!(f, "a frame of version {version}, not of {VERSION}"),
            Self::Versions(min, max) => {
                let is_newer = *min > VERSION;
                let older = if is_newer { "this program" } else { "the peer" };
                write!(f, "the peer speaks versions {min} to {max}, this one {VERSION}: ")?;
                write!(f, "update {older}")
            }
            Self::Foreign => write!(f, "the peer is no node of a cluster: check the address"),
            Self::Kind(kind) => write!(f, "frames of kind {kind} are unknown"),
            Self::Slot(slot) => write!(f, "no slot {slot} belongs here"),
            Self::Epoch(epoch) => write!(f, "no epoch belongs here, and it has {epoch}"),
            Self::Reserved(bytes) => write!(f, "reserved bytes are {bytes:#x}, not 0"),
            Self::Cut(what) => write!(f, "the frame ends within its {what}"),
            Self::Empty(what) => write!(f, "the {what} is empty"),
            Self::Rest(bytes) => write!(f, "{bytes} bytes are left behind the frame's last part"),
            Self::Tag(what, tag) => write!(f, "the {what} has the unknown tag {tag}"),
            Self::NoText(what) => write!(f, "the {what} isn't UTF-8"),
            Self::View(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for BadFrame {}

/// The version of frames that this program writes and reads.
pub const VERSION: u8 = 1;
