// Package kit has the code that the programs of Go clients share. The arguments of a program are the broker's address, a prefix
// for the names that it uses, and checks. A program prints a JSON line about its client and a JSON line for each check. A check
// that fails panics.
package kit

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"runtime/debug"
	"time"
)

// Limit is the longest time for which a program waits for anything.
const Limit = 20 * time.Second

// Check is one check. Its argument is a name for the topics and groups that the check creates; its result may be a remark.
type Check func(name string) string

// Bootstrap is the broker's address.
func Bootstrap() string { return os.Args[1] }

// Run runs the checks that the command line names.
func Run(client, module string, checks map[string]Check) {
	say(map[string]any{"client": client, "version": version(module)})
	for _, id := range os.Args[3:] {
		began := time.Now()
		result, detail := "not offered", ""
		if check, ok := checks[id]; ok {
			result, detail = one(check, os.Args[2]+"-"+id)
		}
		say(map[string]any{"check": id, "result": result, "detail": detail, "seconds": time.Since(began).Round(10 * time.Millisecond).Seconds()})
	}
}

func one(check Check, name string) (result, detail string) {
	defer func() {
		if problem := recover(); problem != nil {
			debug.PrintStack()
			result, detail = "fail", fmt.Sprint(problem)
		}
	}()
	return "pass", check(name)
}

func say(line map[string]any) {
	text, _ := json.Marshal(line)
	fmt.Println(string(text))
}

func version(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, each := range info.Deps {
		if each.Path == module {
			return each.Version
		}
	}
	return "unknown"
}

// Must panics with err, if there is one.
func Must(err error) {
	if err != nil {
		panic(err)
	}
}

// Get returns the value of a call, and panics if the call failed.
func Get[T any](value T, err error) T {
	Must(err)
	return value
}

// Same panics unless both values are equal.
func Same(found, expected any, what string) {
	if !reflect.DeepEqual(found, expected) {
		panic(fmt.Sprintf("%s %v, expected %v", what, found, expected))
	}
}

// Until calls condition until it returns true, and panics after Limit.
func Until(what string, condition func() bool) {
	for deadline := time.Now().Add(Limit); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			panic(fmt.Sprintf("after %v this is still not so: %s", Limit, what))
		}
	}
}

// Numbered returns word-0, word-1, …; count is at most ten, so that the words are in alphabetical order.
func Numbered(word string, count int) (values []string) {
	for number := range count {
		values = append(values, fmt.Sprintf("%s-%d", word, number))
	}
	return values
}
