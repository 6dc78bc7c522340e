//! Train specialist LLMs on personal devices by forward passes alone.
