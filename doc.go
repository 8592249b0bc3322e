// Package simwarden holds the words that every part of the product speaks: a SIM and its
// numbers, the states it can be in, why it is looked at, what is decided and what is ordered.
// It does no I/O and reads no clock.
package simwarden
