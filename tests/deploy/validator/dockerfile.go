package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// Every instruction, and whatever BuildKit's own lint says of them.
func dockerfile(path string) ([]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	parsed, err := parser.Parse(file)
	if err != nil {
		return nil, err
	}
	var remarks []string
	lint := linter.New(&linter.Config{
		Warn: func(rule, _, _, message string, _ []parser.Range) {
			remarks = append(remarks, rule+": "+message)
		},
	})
	stages, _, err := instructions.Parse(parsed.AST, lint)
	if err != nil {
		return nil, err
	}
	for _, warning := range parsed.Warnings {
		remarks = append(remarks, warning.Short)
	}
	if len(remarks) > 0 {
		return nil, fmt.Errorf("%s", strings.Join(remarks, "; "))
	}
	commands := 0
	for _, stage := range stages {
		commands += len(stage.Commands)
	}
	return []string{fmt.Sprintf("%d stages, %d instructions", len(stages), commands)}, nil
}
