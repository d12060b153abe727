//! What a service manager is told: systemd, if it started the process by a unit with `Type=notify`, or any other program
//! that set `NOTIFY_SOCKET`.

pub use sd_notify::NotifyState;

/// Tells the service manager, if there is one. A failure is logged: the program goes on without it.
pub fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!("NOTIFY_SOCKET can't be told: {error}");
    }
}
