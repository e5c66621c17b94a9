import argparse


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--simulator-backend", choices=["othersim", "anothersim"])
