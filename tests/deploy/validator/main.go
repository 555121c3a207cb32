// Reads deployment samples with the code of those who will read them: a manifest as the API server
// of Kubernetes does when it is created, a compose file as docker compose does, a Dockerfile as
// BuildKit does.
//
//	validator kubernetes FILE...
//	validator compose FILE
//	validator dockerfile FILE
//
// One line for each thing that was found good; the exit code is 1 when anything was not.
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "validator kubernetes|compose|dockerfile FILE...")
		os.Exit(2)
	}
	checks := map[string]func(path string) ([]string, error){
		"kubernetes": manifests,
		"compose":    compose,
		"dockerfile": dockerfile,
	}
	check, known := checks[os.Args[1]]
	if !known {
		fmt.Fprintf(os.Stderr, "there is no check %s\n", os.Args[1])
		os.Exit(2)
	}
	failed := false
	for _, path := range os.Args[2:] {
		good, err := check(path)
		for _, line := range good {
			fmt.Println(line)
		}
		if err != nil {
			failed = true
			fmt.Fprintf(os.Stderr, "%s: %v\n", path, err)
		}
	}
	if failed {
		os.Exit(1)
	}
}
