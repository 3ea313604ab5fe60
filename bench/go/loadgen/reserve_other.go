//go:build !linux

package main

func reserve(int) {}
