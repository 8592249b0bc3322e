// Package lab plays carriers over real HTTP: accounts with SIMs whose usage grows, changes that
// take time, quotas that it enforces, and faults by name that can be switched while it runs.
//
// A World holds the accounts, the faults and the log. It is driven by the clock it is given, so
// that a test may run it in virtual time, and it makes every choice from its seed. A dialect
// (package lab/<name>) turns HTTP requests into requests of the world and words the answers as
// the carrier would; import it for its registration.
//
// The log has one line per complete request with what truly happened. It is the oracle against
// which simwarden is judged, so nothing in here knows the product.
//
// The lab is for tests and demos: its admin endpoint (/lab/) asks for no password. Bind it to
// loopback.
package lab
